//! The live output of the demo.
//!
//! In a terminal the two rows of a fault grow side by side; elsewhere each row is printed when it is complete. A row is
//! never wider than the terminal, because a wrapped line cannot be redrawn.

use super::client::Reply;
use super::counts::Counts;
use super::fault::{Fault, Transport};
use super::run::Mark;
use super::stop;
use super::testbed::Side;
use crate::output;
use crate::style::Style;

/// Width before the marks of a row.
const BEFORE: usize = 18;

/// Width of the count of marks that do not fit.
const COUNT: usize = 8;

/// The output of the demo.
pub(super) struct Screen {
    style: Style,
    is_live: bool,
    width: usize,
    rows: [Row; 2],
}

#[derive(Default)]
struct Row {
    marks: Vec<Mark>,
    end: String,
}

impl Screen {
    pub(super) fn new(style: Style, is_live: bool, width: usize) -> Screen {
        Screen { style, is_live, width, rows: Default::default() }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Prints one line.
    pub(super) fn line(&self, text: &str) {
        write(&format!("{text}\n"));
    }

    /// Prints what the demo does, and the legend.
    pub(super) fn introduce(&self) {
        let style = self.style;
        self.line(&style.bold("The same calls, the same faults, at the same time."));
        self.line(&style.faint("  plain     client ─────────────────── server"));
        self.line(&style.faint("  mendline  client ── mendline run ─── server"));
        let legend = [
            (Mark::Done(Reply::Answered), "answered"),
            (Mark::Done(Reply::MayHaveRun), "outcome unknown"),
            (Mark::Fault, "fault"),
            (Mark::Done(Reply::Failed), "failed"),
            (Mark::Done(Reply::Lost), "lost"),
            (Mark::Done(Reply::Hung), "hung"),
        ];
        let mut room = 0;
        for (mark, words) in legend {
            // A separator, a mark of up to two columns, a space.
            let needed = words.chars().count() + 6;
            let gap = if room < needed { "\n  " } else { "   " };
            room = if room < needed { self.width } else { room } - needed;
            write(&format!("{gap}{} {words}", self.mark(mark)));
        }
        self.line("");
    }

    /// Begins a fault.
    pub(super) fn begin(&mut self, fault: Fault, number: usize) {
        self.rows = Default::default();
        if number == 1 || Fault::ALL[number - 2].transport() != fault.transport() {
            self.line("");
            self.line(&self.style.bold(group(fault.transport())));
        }
        let count = format!("{number:>2}/{}", Fault::ALL.len());
        self.line(&format!(" {}  {}", self.style.faint(&count), fault.words()));
        if self.is_live {
            write(&self.both());
        }
    }

    /// Adds a mark to one side.
    pub(super) fn add_mark(&mut self, side: Side, mark: Mark) {
        self.row(side).marks.push(mark);
        self.redraw();
    }

    /// Ends one side.
    pub(super) fn end(&mut self, side: Side, counts: &Counts) {
        let end = format!("  slowest {} ms", counts.slowest.as_millis());
        self.row(side).end = end;
        self.redraw();
    }

    /// Ends both sides.
    pub(super) fn finish(&self) {
        if !self.is_live {
            write(&self.both());
        }
    }

    fn row(&mut self, side: Side) -> &mut Row {
        &mut self.rows[usize::from(side == Side::Mended)]
    }

    fn redraw(&self) {
        if self.is_live {
            write(&format!("\x1b[2A{}", self.both()));
        }
    }

    fn both(&self) -> String {
        let clear = if self.is_live { "\r\x1b[2K" } else { "" };
        let rows = Side::BOTH.iter().zip(&self.rows);
        rows.map(|(side, row)| format!("{clear}        {:<9} {}\n", side.word(), self.drawn(row))).collect()
    }

    fn drawn(&self, row: &Row) -> String {
        // The mark of a fault is two columns wide.
        let mut room = self.width.saturating_sub(BEFORE + row.end.len() + 2).max(10);
        if row.marks.len() > room {
            room -= COUNT;
        }
        let mut drawn: String = row.marks.iter().take(room).map(|mark| self.mark(*mark)).collect();
        if row.marks.len() > room {
            drawn += &format!("… {}", row.marks.len());
        }
        drawn + &self.style.faint(&row.end)
    }

    fn mark(&self, mark: Mark) -> String {
        match mark {
            Mark::Fault => self.style.paint("1;33", "⚡"),
            Mark::Done(Reply::Answered) => self.style.green("●"),
            Mark::Done(Reply::MayHaveRun) => self.style.yellow("?"),
            Mark::Done(Reply::Failed) => self.style.red("!"),
            Mark::Done(Reply::Lost) => self.style.red("✗"),
            Mark::Done(Reply::Hung) => self.style.red("~"),
        }
    }
}

/// Returns the heading of the servers with this transport.
pub(super) fn group(transport: Transport) -> &'static str {
    match transport {
        Transport::Stdio => "A server that is a child process",
        Transport::Http => "A server at a URL",
    }
}

/// Writes at once, and stops the demo if stdout is closed.
fn write(text: &str) {
    print!("{text}");
    if output::has_failed() {
        stop::ask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: usize) -> Screen {
        Screen::new(Style::none(), false, width)
    }

    #[test]
    fn row_is_never_wider_than_the_terminal() {
        for width in [60, 80, 120] {
            let mut screen = screen(width);
            for _ in 0..1000 {
                screen.add_mark(Side::Plain, Mark::Done(Reply::Answered));
            }
            screen.add_mark(Side::Mended, Mark::Fault);
            screen.end(Side::Plain, &Counts { slowest: std::time::Duration::from_secs(10), ..Counts::default() });
            let both = screen.both();
            let longest = both.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest < width, "{longest} of {width}: {both}");
            assert!(both.contains("… 1000"), "{both}");
        }
    }
}
