//! Quotation of a peer's text in errors, events and answers.
//!
//! Errors, events and answers quote a server: a line of its stderr, the message of an error that answers no call, noise
//! on its stdout. Such text may contain secrets and terminal control characters. Only the shell knows the secrets, so
//! it gives the engine a [`Quote`]; the engine quotes through it and keeps no foreign text in any other form. A
//! server's answer to a client's request is not a quotation and passes unchanged.

use std::fmt;

/// Makes a peer's text safe to quote. It must be pure: the same text gives the same quotation until a secret is added.
pub trait Quote: fmt::Debug + Send + Sync {
    /// The text on one line, without secrets and control characters. It is cut to `longest` bytes last, so that no part
    /// of a secret stays at the cut.
    fn quote(&self, text: &[u8], longest: usize) -> String;
}

/// The default of an engine whose shell knows no secrets: removes only control characters.
#[derive(Debug)]
pub(crate) struct Unredacted;

impl Quote for Unredacted {
    fn quote(&self, text: &[u8], longest: usize) -> String {
        let text = String::from_utf8_lossy(text);
        let mut quoted: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        quoted.truncate(quoted.floor_char_boundary(longest));
        quoted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quote_removes_controls_and_cuts_at_characters() {
        assert_eq!(Unredacted.quote("a\nb\u{1b}é".as_bytes(), 5), "a b ");
    }
}
