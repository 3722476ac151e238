//! The closing table with the counts.
//!
//! On a terminal that is too narrow for columns, each fault is a paragraph.

use super::counts::Counts;
use super::fault::Fault;
use super::screen::group;
use crate::style::Style;

/// The width of the columns: fault, hits, plain, mended.
const COLUMNS: [usize; 4] = [24, 6, 25, 19];

/// Width of the whole table.
const WIDTH: usize = 2 + COLUMNS[0] + 1 + COLUMNS[1] + 1 + COLUMNS[2] + 1 + COLUMNS[3];

/// Counts of both sides under one fault.
pub(super) struct Row {
    pub(super) fault: Fault,
    pub(super) plain: Counts,
    pub(super) mended: Counts,
}

/// Returns the table as lines, and whether Mendline passed.
pub(super) fn table(rows: &[Row], style: Style, width: usize) -> (Vec<String>, bool) {
    let (mut plain, mut mended) = (Counts::default(), Counts::default());
    for row in rows {
        plain.add(&row.plain);
        mended.add(&row.mended);
    }
    let is_wide = width >= WIDTH;
    let mut lines = Vec::new();
    let mut cells = |cells: [&str; 4]| lines.extend(if is_wide { columns(cells) } else { paragraph(cells) });
    let rule = style.faint(&"─".repeat(WIDTH.min(width) - 2));
    let rule = ["\u{0}", &rule, "", ""];
    if is_wide {
        cells(["fault", "hits", "plain client", "through Mendline"]);
    }
    for (number, row) in rows.iter().enumerate() {
        if number == 0 || rows[number - 1].fault.transport() != row.fault.transport() {
            cells(rule);
            cells(["\u{0}", &style.faint(group(row.fault.transport())), "", ""]);
        }
        cells([
            row.fault.words(),
            &hits(row),
            &style.paint(colour(&row.plain), &row.plain.words()),
            &style.paint(colour(&row.mended), &row.mended.words()),
        ]);
    }
    cells(rule);
    cells(["answered", "", &share(&plain), &share(&mended)]);
    cells(["writes that ran twice", "", &plain.twice.to_string(), &mended.twice.to_string()]);
    cells(["writes reported, not run", "", &plain.invented.to_string(), &mended.invented.to_string()]);
    cells(["slowest call", "", &seconds(&plain), &seconds(&mended)]);
    let unknown = rows.iter().map(|row| row.fault.unknown_outcomes()).sum();
    // A fault that did not hit Mendline proves nothing.
    let passed = mended.passed(unknown)
        && rows.iter().all(|row| row.mended.hits > 0 && row.mended.passed(row.fault.unknown_outcomes()));
    (lines, passed)
}

/// Colour of counts: all answered, some unknown, or some failed.
fn colour(counts: &Counts) -> &'static str {
    match (counts.passed(0), counts.passed(u32::MAX)) {
        (true, _) => "32",
        (false, true) => "33",
        (false, false) => "31",
    }
}

/// Number of hits, per side where they differ: a client that keeps calling an overloaded server is rejected more often.
fn hits(row: &Row) -> String {
    if row.plain.hits == row.mended.hits {
        format!("{}×", row.plain.hits)
    } else {
        format!("{}×/{}×", row.plain.hits, row.mended.hits)
    }
}

fn share(counts: &Counts) -> String {
    let percent = u64::from(counts.answered) * 100 / u64::from(counts.calls.max(1));
    format!("{} of {} ({percent} %)", counts.answered, counts.calls)
}

fn seconds(counts: &Counts) -> String {
    format!("{:.1} s", counts.slowest.as_secs_f32())
}

fn columns([name, hits, plain, mended]: [&str; 4]) -> Vec<String> {
    let line = match name {
        "\u{0}" => format!("  {hits}"),
        name => {
            let [first, second, third, _] = COLUMNS;
            // Colour codes count as characters but take no columns.
            let third = third + plain.chars().count() - seen(plain);
            format!("  {name:<first$} {hits:<second$} {plain:<third$} {mended}")
        }
    };
    vec![line.trim_end().to_owned()]
}

/// Returns the number of columns of a text, without colour codes.
fn seen(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.chars().count());
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count())).sum::<usize>()
}

fn paragraph([name, hits, plain, mended]: [&str; 4]) -> Vec<String> {
    if name == "\u{0}" {
        return vec![format!("  {hits}")];
    }
    let hits = if hits.is_empty() { String::new() } else { format!("  {hits}") };
    vec![format!("  {name}{hits}"), format!("    plain     {plain}"), format!("    mendline  {mended}")]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demo::client::Reply;

    fn counts(hits: u32, replies: &[(Reply, u32)]) -> Counts {
        let mut counts = Counts { hits, ..Counts::default() };
        for (reply, count) in replies {
            (0..*count).for_each(|_| counts.note(*reply, Duration::from_millis(40)));
        }
        counts
    }

    fn rows() -> Vec<Row> {
        use Reply::{Answered, Failed, Lost, MayHaveRun};
        let cut = Row {
            fault: Fault::KilledUnderAWrite,
            plain: counts(1, &[(Answered, 5), (Lost, 7)]),
            mended: counts(1, &[(Answered, 11), (MayHaveRun, 1)]),
        };
        let away = Row {
            fault: Fault::Restarted,
            plain: counts(1, &[(Answered, 4), (Lost, 3), (Failed, 5)]),
            mended: counts(1, &[(Answered, 12)]),
        };
        let busy = Row {
            fault: Fault::Busy,
            plain: counts(8, &[(Answered, 4), (Failed, 8)]),
            mended: counts(1, &[(Answered, 12)]),
        };
        vec![cut, away, busy]
    }

    #[test]
    fn table_in_columns() {
        let (lines, passed) = table(&rows(), Style::none(), 80);
        assert!(passed);
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn table_in_paragraphs() {
        let (lines, _) = table(&rows(), Style::none(), 60);
        assert!(lines.iter().all(|line| line.chars().count() <= 60));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn colours_do_not_move_the_columns() {
        assert_eq!(seen("\u{1b}[31m4 of 20\u{1b}[0m"), 7);
        let bare = columns(["a", "b", "4 of 20", "20 of 20"]);
        let painted = columns(["a", "b", "\u{1b}[31m4 of 20\u{1b}[0m", "20 of 20"]);
        assert_eq!(seen(&bare[0]), seen(&painted[0]));
    }

    #[test]
    fn fault_without_a_hit_does_not_pass() {
        let mut rows = rows();
        rows[1].mended.hits = 0;
        assert!(!table(&rows, Style::none(), 80).1);
    }

    #[test]
    fn unknown_outcome_counts_only_for_its_own_fault() {
        let mut rows = rows();
        rows[0].mended = counts(1, &[(Reply::Answered, 12)]);
        rows[1].mended = counts(1, &[(Reply::Answered, 11), (Reply::MayHaveRun, 1)]);
        assert!(!table(&rows, Style::none(), 80).1);
    }
}
