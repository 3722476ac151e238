//! Finds signals in texts.
//!
//! Mendline and libc print the number of a signal, Node and Go its name, Python both, and a shell an exit code above
//! 128. One search finds all of these.

use super::errno::has_word;
use crate::os::signals::SIGNALS;
pub use crate::os::signals::SystemSignal;

impl SystemSignal {
    /// Returns the signal of this name.
    pub fn named(name: &str) -> Option<SystemSignal> {
        SIGNALS.iter().find(|signal| signal.name.eq_ignore_ascii_case(name)).copied()
    }

    /// Returns whether a text mentions the signal, by its name, its number or the exit code of a shell.
    pub fn is_in(self, text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        let number = self.number;
        has_word(&text.to_ascii_uppercase(), self.name)
            || has_word(&lower, &format!("signal {number}"))
            || has_word(&lower, &format!("signal: {number}"))
            || has_word(&lower, &format!("code {}", 128 + number))
            || has_word(&lower, &format!("status {}", 128 + number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_is_found_by_name_number_and_exit_code() {
        let kill = SystemSignal::named("sigkill").unwrap();
        for text in ["killed by signal 9", "signal: 9 (core dumped)", "SIGKILL", "exit code 137", "exit status 137"] {
            assert!(kill.is_in(text), "{text}");
        }
        for text in ["signal 90", "signal 15", "sigkills", "code 1370", "9"] {
            assert!(!kill.is_in(text), "{text}");
        }
        assert_eq!(SystemSignal::named("KILL"), None);
    }
}
