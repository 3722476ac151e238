//! The recent events, and the scroll position.
//!
//! New lines arrive at the bottom. A view that is scrolled or paused keeps showing the same lines: its position is
//! counted from the newest line and moves along with it. Old lines are dropped; the log has them. Stderr output of
//! servers takes at most half of the lines, so that a noisy server does not hide decisions about the others.

use std::collections::VecDeque;

use mendline::control::Level;

/// Maximum number of lines.
pub(crate) const KEPT: usize = 1000;

/// Maximum number of lines that a late line may precede.
const LATE: usize = 32;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Time, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) level: Level,
    /// Name of the server.
    pub(crate) who: String,
    /// True for stderr output of the server.
    pub(crate) said: bool,
    pub(crate) text: String,
}

/// The recent lines, the newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventStream {
    lines: VecDeque<Line>,
    /// Number of lines with stderr output.
    said: usize,
    /// Number of newer lines below the view.
    below: usize,
}

impl EventStream {
    /// Adds a line. `counts` says whether it is shown, `holds` whether the view must not move.
    pub(crate) fn push(&mut self, line: Line, counts: bool, holds: bool) {
        if self.lines.len() == KEPT {
            self.forget_one();
        }
        self.said += usize::from(line.said);
        // Each process reports in its own order, so a line may arrive late.
        let earlier = self.lines.iter().rev().take(LATE).take_while(|before| before.at > line.at).count();
        self.lines.insert(self.lines.len() - earlier, line);
        if counts && (holds || self.below > 0) {
            self.below += 1;
        }
    }

    fn forget_one(&mut self) {
        let is_too_much = self.said > KEPT / 2;
        let oldest = if is_too_much { self.lines.iter().position(|line| line.said) } else { Some(0) };
        if let Some(forgotten) = oldest.and_then(|at| self.lines.remove(at)) {
            self.said -= usize::from(forgotten.said);
        }
    }

    /// Returns all lines, the oldest first.
    pub(crate) fn lines(&self) -> impl DoubleEndedIterator<Item = &Line> {
        self.lines.iter()
    }

    /// Returns the number of newer lines below the view.
    pub(crate) fn below(&self) -> usize {
        self.below
    }

    /// Scrolls to older lines, or to newer ones if it is negative. The view has room for `height` of `shown` lines.
    pub(crate) fn scroll(&mut self, older: isize, shown: usize, height: usize) {
        self.below = self.below.saturating_add_signed(older);
        self.settle(shown, height);
    }

    /// Keeps the view within the lines.
    pub(crate) fn settle(&mut self, shown: usize, height: usize) {
        self.below = self.below.min(shown.saturating_sub(height));
    }

    /// Returns to the newest lines.
    pub(crate) fn follow(&mut self) {
        self.below = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { at: 0, level: Level::Info, who: "notes".to_owned(), said: false, text: text.to_owned() }
    }

    #[test]
    fn number_of_events_is_limited() {
        let mut events = EventStream::default();
        for number in 0..KEPT + 10 {
            events.push(line(&number.to_string()), true, false);
        }
        assert_eq!(events.lines().count(), KEPT);
        assert_eq!(events.lines().next().unwrap().text, "10");
    }

    #[test]
    fn noisy_server_does_not_hide_decisions() {
        let mut events = EventStream::default();
        for number in 0..10 {
            events.push(line(&number.to_string()), true, false);
        }
        for _ in 0..10 * KEPT {
            events.push(Line { said: true, ..line("blah") }, true, false);
        }
        assert_eq!(events.lines().filter(|line| !line.said).count(), 10);
        for number in 0..KEPT / 2 {
            events.push(line(&number.to_string()), true, false);
        }
        assert_eq!((events.lines().count(), events.lines().next().unwrap().said), (KEPT, true));
        assert_eq!(events.lines().filter(|line| line.said).count(), KEPT / 2, "and what it said is not all forgotten");
    }

    #[test]
    fn events_are_ordered_by_time() {
        let mut events = EventStream::default();
        for at in [10, 30, 20, 20, 5] {
            events.push(Line { at, ..line("") }, true, false);
        }
        assert_eq!(events.lines().map(|line| line.at).collect::<Vec<_>>(), [5, 10, 20, 20, 30]);
    }

    #[test]
    fn scrolled_view_keeps_its_lines() {
        let mut events = EventStream::default();
        for number in 0..10 {
            events.push(line(&number.to_string()), true, false);
        }
        assert_eq!(events.below(), 0, "the newest is followed");
        events.scroll(3, 10, 4);
        events.push(line("new"), true, false);
        assert_eq!(events.below(), 4);
        events.scroll(100, 11, 4);
        assert_eq!(events.below(), 7, "the oldest four are looked at");
        events.scroll(-100, 11, 4);
        assert_eq!(events.below(), 0);
        events.push(line("held"), true, true);
        events.push(line("of another"), false, true);
        assert_eq!(events.below(), 1);
    }
}
