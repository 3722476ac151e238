//! The servers as rows, with as many columns as have a place.
//!
//! Every column has a rank. Where the screen is too narrow, those of the highest rank go first. What is left of the width
//! then goes to the columns that are cut short, the important ones first.

use mendline::control::snapshot::{Standing, TransportKind};
use mendline::control::words::{span_ms, took_us};

use super::detail::bytes;
use super::paint::{Tone, width};
use super::row::Row;

/// What is between two columns.
pub(crate) const GAP: u16 = 2;

/// One column.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// 0 always stays.
    rank: u8,
    /// Numbers stand on the right.
    pub(crate) is_number: bool,
    /// It is never narrower than this.
    least: u16,
    /// And never wider than this.
    most: u16,
    pub(crate) cell: fn(&Row) -> Cell,
}

/// What is in one place.
pub(crate) type Cell = (String, Tone);

const fn text(title: &'static str, rank: u8, least: u16, most: u16, cell: fn(&Row) -> Cell) -> Column {
    Column { title, rank, is_number: false, least, most, cell }
}

const fn number(title: &'static str, rank: u8, least: u16, cell: fn(&Row) -> Cell) -> Column {
    Column { title, rank, is_number: true, least, most: 12, cell }
}

/// All of them, as they stand.
const COLUMNS: [Column; 15] = [
    text("SERVER", 0, 8, 28, |row| (row.id.clone(), Tone::Bold)),
    text("VIA", 12, 5, 5, via),
    text("STATE", 0, 16, 48, |row| (row.state(), row.mood().into())),
    text("BREAKER", 7, 8, 20, breaker),
    number("IN FLIGHT", 4, 9, in_flight),
    number("OK", 1, 5, |row| count(row, |calls| calls.answered, Tone::Plain)),
    number("FAILED", 2, 6, |row| count(row, |calls| calls.failed, Tone::Bad)),
    number("RETRIED", 8, 7, |row| count(row, |calls| calls.retried, Tone::Passing)),
    number("UNKNOWN", 6, 7, |row| count(row, |calls| calls.unknown, Tone::Bad)),
    number("P50", 10, 6, |row| took(row, |latency| latency.p50_us)),
    number("P95", 5, 6, |row| took(row, |latency| latency.p95_us)),
    number("P99", 11, 6, |row| took(row, |latency| latency.p99_us)),
    number("PID", 9, 6, |row| (row.key.pid.to_string(), Tone::Faint)),
    number("MEMORY", 9, 8, |row| (row.memory.map_or(String::new(), bytes), Tone::Plain)),
    text("LAST ERROR", 3, 14, 120, last_error),
];

/// The columns that have a place in this width, each with what it gets.
pub(crate) fn fit(rows: &[&Row], whole: u16) -> Vec<(&'static Column, u16)> {
    let natural = |column: &Column| -> u16 {
        let cells = rows.iter().map(|row| width(&(column.cell)(row).0)).max().unwrap_or_default();
        u16::try_from(cells.max(width(column.title))).unwrap_or(u16::MAX).clamp(column.least, column.most)
    };
    let mut columns: Vec<(&'static Column, u16)> = COLUMNS.iter().map(|column| (column, column.least)).collect();
    let total = |columns: &[(&Column, u16)]| -> u16 {
        let gaps = GAP * u16::try_from(columns.len().saturating_sub(1)).unwrap_or(0);
        columns.iter().map(|(_, width)| width).sum::<u16>() + gaps
    };
    while total(&columns) > whole {
        let last = columns.iter().enumerate().filter(|(_, (column, _))| column.rank > 0);
        let Some((at, _)) = last.max_by_key(|(_, (column, _))| column.rank) else { break };
        columns.remove(at);
    }
    let mut left = whole.saturating_sub(total(&columns));
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|at| columns[*at].0.rank);
    for at in by_rank {
        let (column, width) = &mut columns[at];
        let more = natural(column).saturating_sub(*width).min(left);
        *width += more;
        left -= more;
    }
    columns
}

fn via(row: &Row) -> Cell {
    let word = row.server().map_or("", |server| match server.transport {
        TransportKind::Child => "child",
        TransportKind::Http => "http",
        TransportKind::Sse => "sse",
    });
    (word.to_owned(), Tone::Faint)
}

fn breaker(row: &Row) -> Cell {
    let Some(server) = row.server() else { return Cell::default() };
    let tone = match (server.breaker.standing, server.breaker.tools.is_empty()) {
        (Standing::Closed, true) => Tone::Faint,
        (Standing::Open, _) => Tone::Bad,
        _ => Tone::Passing,
    };
    (server.breaker.words(), tone)
}

/// Those that wait are said after those that are out.
fn in_flight(row: &Row) -> Cell {
    match row.server().map(|server| (server.in_flight, server.waiting)) {
        None => Cell::default(),
        Some((0, 0)) => ("0".to_owned(), Tone::Faint),
        Some((out, 0)) => (out.to_string(), Tone::Plain),
        Some((out, waiting)) => (format!("{out} + {waiting}"), Tone::Passing),
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
    (took.map_or(String::new(), took_us), Tone::Plain)
}

fn last_error(row: &Row) -> Cell {
    let error = row.server().and_then(|server| server.last_error.as_ref());
    (error.map_or(String::new(), |error| format!("{} ago: {}", span_ms(error.ago_ms), error.what)), Tone::Faint)
}
