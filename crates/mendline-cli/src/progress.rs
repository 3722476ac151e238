//! A progress line on stderr for a call.
//!
//! It is drawn only on a terminal, and cleared before anything else is written there.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::mcp_client::Progress;
use crate::untrusted_text::{cut, one_line, width};

/// Width of the bar.
const BAR: usize = 24;

/// The progress line. Clones share it.
#[derive(Clone)]
pub(crate) struct ProgressLine(Arc<Mutex<State>>);

struct State {
    is_seen: bool,
    is_drawn: bool,
    since: Instant,
}

impl Default for ProgressLine {
    fn default() -> ProgressLine {
        let state = State { is_seen: std::io::stderr().is_terminal(), is_drawn: false, since: Instant::now() };
        ProgressLine(Arc::new(Mutex::new(state)))
    }
}

impl ProgressLine {
    /// Draws the progress.
    pub(crate) fn show(&self, progress: &Progress) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_seen {
            return;
        }
        let seconds = state.since.elapsed().as_secs();
        let line = bar(progress, seconds, width(std::io::stderr()).saturating_sub(1));
        state.is_drawn = true;
        eprint!("\r\x1b[K{line}");
    }

    /// Prints a line above the progress.
    pub(crate) fn print(&self, line: &str) {
        self.clear();
        eprintln!("{line}");
    }

    /// Clears the progress.
    pub(crate) fn clear(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_drawn) {
            eprint!("\r\x1b[K");
        }
    }
}

fn bar(progress: &Progress, seconds: u64, width: usize) -> String {
    let message = progress.message.as_deref().map_or_else(String::new, |message| format!("  {}", one_line(message)));
    let line = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => {
            let share = (progress.done / total).clamp(0.0, 1.0);
            let full = (share * BAR as f64).round() as usize;
            let (full, empty) = ("█".repeat(full), "░".repeat(BAR - full));
            format!("  {full}{empty} {:>3.0} %  {seconds} s{message}", share * 100.0)
        }
        None => format!("  {}  {seconds} s{message}", progress.done),
    };
    cut(&line, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(done: f64, total: Option<f64>, message: Option<&str>) -> String {
        bar(&Progress { done, total, message: message.map(str::to_owned) }, 3, 60)
    }

    #[test]
    fn bar_shows_the_share_and_never_more_than_full() {
        assert_eq!(drawn(1.0, Some(4.0), None), format!("  {}{}  25 %  3 s", "█".repeat(6), "░".repeat(18)));
        assert!(drawn(9.0, Some(4.0), None).contains("100 %"));
        assert!(drawn(-1.0, Some(4.0), None).contains("  0 %"));
        assert_eq!(drawn(7.0, None, Some("rows\u{1b}[2J")), "  7  3 s  rows\\u{1b}[2J");
        assert_eq!(drawn(7.0, Some(0.0), None), "  7  3 s");
        assert!(drawn(1.0, Some(2.0), Some(&"word ".repeat(40))).chars().count() <= 60);
    }
}
