//! The servers as rows, with as many columns as fit.
//!
//! Columns get their width in the order of their ranks. States and errors may be cut; each has a guaranteed share of the
//! width, and gets more of what is left in the end. A name is cut only if it would leave no room for the state. Columns
//! about problems get a lower rank if there are any.

use mendline::control::snapshot::{BreakerState, TransportKind};
use mendline::control::words::took_us;

use super::detail::{ago, bytes};
use super::paint::{Tone, width};
use super::row::Row;

/// Width between two columns.
pub(crate) const GAP: u16 = 2;

/// Title of the column of names.
pub(crate) const NAMES: &str = "SERVER";

/// Minimum width of the state.
const STATE_LEAST: u16 = 16;

/// Maximum guaranteed width of a column.
const WIDE: u16 = 30;

/// One column.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Order in which columns get their width, the lowest first.
    rank: fn(&[&Row]) -> u8,
    /// Numbers are right-aligned.
    pub(crate) is_number: bool,
    /// Minimum width.
    least: u16,
    /// The column is guaranteed one part in so many of the width.
    share: u16,
    pub(crate) cell: fn(&Row) -> Cell,
}

/// Text and role of a cell.
pub(crate) type Cell = (String, Tone);

const fn text(title: &'static str, rank: fn(&[&Row]) -> u8, least: u16, share: u16, cell: fn(&Row) -> Cell) -> Column {
    Column { title, rank, is_number: false, least, share, cell }
}

const fn number(title: &'static str, rank: fn(&[&Row]) -> u8, least: u16, cell: fn(&Row) -> Cell) -> Column {
    Column { title, rank, is_number: true, least, share: 1, cell }
}

/// All columns, in the order of display.
static COLUMNS: [Column; 17] = [
    text(NAMES, |_| 0, 8, 1, |row| (row.id.clone(), Tone::Bold)),
    text("CLIENT", |_| 5, 8, 6, client),
    text("VIA", |_| 13, 5, 1, via),
    text("STATE", |_| 1, STATE_LEAST, 3, |row| (row.state(), row.severity().into())),
    text("BREAKER", |rows| if rows.iter().any(|row| holds_back(row)) { 4 } else { 14 }, 7, 8, breaker),
    number("NOW", |_| 9, 4, in_flight),
    number("OK", |_| 3, 5, |row| count(row, |calls| calls.all().ok, Tone::Plain)),
    number("ERRORS", |_| 10, 6, |row| count(row, |calls| calls.all().answered_with_error(), Tone::Warning)),
    number("FAILED", |_| 2, 6, |row| count(row, |calls| calls.all().not_run(), Tone::Error)),
    number("RETRIED", |_| 10, 7, |row| count(row, |calls| calls.retried, Tone::Warning)),
    number(
        "UNKNOWN",
        |rows| if rows.iter().any(|row| has_unknown(row)) { 7 } else { 10 },
        7,
        |row| count(row, |calls| calls.all().unknown, Tone::Error),
    ),
    number("P50", |_| 11, 6, |row| took(row, |latency| latency.p50_us)),
    number("P95", |_| 8, 6, |row| took(row, |latency| latency.p95_us)),
    number("P99", |_| 12, 6, |row| took(row, |latency| latency.p99_us)),
    number("PID", |_| 11, 6, |row| (row.key.pid.to_string(), Tone::Faint)),
    number("MEMORY", |_| 11, 7, |row| (row.memory.map_or(String::new(), bytes), Tone::Plain)),
    text("LAST ERROR", |rows| if rows.iter().any(|row| has_erred(row)) { 6 } else { 15 }, 16, 5, last_error),
];

/// Returns the columns that fit into this width, each with its own.
pub(crate) fn fit(rows: &[&Row], whole: u16) -> Vec<(&'static Column, u16)> {
    let natural = |column: &Column| -> u16 {
        let cells = rows.iter().map(|row| width(&(column.cell)(row).0)).max().unwrap_or_default();
        u16::try_from(cells.max(width(column.title))).unwrap_or(u16::MAX).max(column.least)
    };
    let mut by_rank: Vec<usize> = (0..COLUMNS.len()).collect();
    by_rank.sort_by_key(|at| (COLUMNS[*at].rank)(rows));
    let mut given = [0; COLUMNS.len()];
    let mut left = whole;
    for at in &by_rank {
        let column = &COLUMNS[*at];
        let gap = if left == whole { 0 } else { GAP };
        let room = left.saturating_sub(gap);
        if column.least <= room {
            let most = match column.title {
                NAMES => whole.saturating_sub(GAP + STATE_LEAST).max(column.least),
                _ => (whole / column.share).clamp(column.least, WIDE),
            };
            let wants = natural(column).min(most);
            given[*at] = wants.min(room);
            left -= given[*at] + gap;
        }
    }
    for at in by_rank.into_iter().filter(|at| given[*at] > 0).collect::<Vec<_>>() {
        let more = natural(&COLUMNS[at]).saturating_sub(given[at]).min(left);
        given[at] += more;
        left -= more;
    }
    COLUMNS.iter().zip(given).filter(|(_, width)| *width > 0).collect()
}

/// Returns the client that uses the server.
fn client(row: &Row) -> Cell {
    let name = row.known.as_ref().and_then(|(process, _)| process.client_name());
    (name.unwrap_or_default().to_owned(), Tone::Plain)
}

fn holds_back(row: &Row) -> bool {
    row.server().is_some_and(|it| it.breaker.state != BreakerState::Closed || !it.breaker.tools.is_empty())
}

fn has_unknown(row: &Row) -> bool {
    row.server().is_some_and(|server| server.calls.all().unknown > 0)
}

fn has_erred(row: &Row) -> bool {
    row.server().is_some_and(|server| server.last_error.is_some())
}

fn via(row: &Row) -> Cell {
    let word = row.server().map_or("", |server| match server.transport {
        TransportKind::Child => "stdio",
        TransportKind::Http => "http",
        TransportKind::Sse => "sse",
    });
    (word.to_owned(), Tone::Faint)
}

fn breaker(row: &Row) -> Cell {
    let Some(server) = row.server() else { return Cell::default() };
    (server.breaker.words(), if holds_back(row) { Tone::Warning } else { Tone::Faint })
}

/// Formats the calls in flight, and after a plus sign those that wait.
fn in_flight(row: &Row) -> Cell {
    match row.server().map(|server| (server.in_flight, server.waiting, server.silent_calls)) {
        None => Cell::default(),
        Some((0, 0, _)) => ("0".to_owned(), Tone::Faint),
        Some((out, 0, 0)) => (out.to_string(), Tone::Plain),
        Some((out, 0, _)) => (out.to_string(), Tone::Warning),
        Some((out, waiting, _)) => (format!("{out}+{waiting}"), Tone::Warning),
    }
}

fn count(row: &Row, which: fn(&mendline::control::snapshot::Calls) -> u64, tone: Tone) -> Cell {
    match row.server().map(|server| which(&server.calls)) {
        None => Cell::default(),
        Some(0) => ("0".to_owned(), Tone::Faint),
        Some(count) => (count.to_string(), tone),
    }
}

fn took(row: &Row, which: fn(&mendline::control::snapshot::Latency) -> Option<u64>) -> Cell {
    let took = row.server().and_then(|server| which(&server.latency));
    (took.map_or(String::new(), |took| took_us(took).replace(' ', "")), Tone::Plain)
}

fn last_error(row: &Row) -> Cell {
    let error = row.server().and_then(|server| server.last_error.as_ref());
    (error.map_or(String::new(), |error| format!("{}: {}", ago(error.ago_ms), error.what)), Tone::Faint)
}
