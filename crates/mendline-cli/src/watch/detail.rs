//! Details of one server: its connection, calls, breaker, limits, errors and client.

use mendline::control::Level;
use mendline::control::snapshot::{Limit, ProcessInfo, Server, TransportKind};
use mendline::control::words::{span_ms, took_us};

use super::model::Model;
use super::paint::{Tone, cut, width};
use super::row::Row;

/// Width of the labels.
pub(crate) const LABEL: u16 = 12;

/// Separator of facts.
const BETWEEN: &str = " · ";

/// Number of recent problems that are shown.
const TROUBLES: usize = 3;

/// A line: a label and facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// Empty on a continuation line.
    pub(crate) label: &'static str,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

/// Returns the lines about one server, none wider than this.
pub(crate) fn lines(row: &Row, model: &Model, width: usize) -> Vec<Fact> {
    let mut page = Page { lines: Vec::new(), room: width.saturating_sub(usize::from(LABEL)) };
    page.put("state", row.severity().into(), [row.state()]);
    match &row.known {
        Some((process, server)) => {
            page.put("server", Tone::Plain, place(row, server));
            if let Some(error) = &server.last_error {
                page.put("last error", Tone::Error, [format!("{}: {}", ago(error.ago_ms), error.what)]);
            }
            page.put("connection", Tone::Plain, connection(server));
            page.put("calls", Tone::Plain, calls(server));
            page.put("silent", Tone::Warning, server.silence());
            page.put("lists", Tone::Plain, server.lists.words());
            page.put("latency", Tone::Plain, latency(server));
            page.put("breaker", Tone::Plain, breaker(server));
            page.put("limit", Tone::Plain, limit(&server.limit));
            page.put("used by", Tone::Plain, user(process, model.now));
        }
        None => page.put("process", Tone::Plain, [format!("{}, no answer yet", row.key.pid)]),
    }
    let troubles = model.events.lines().rev().filter(|line| line.level >= Level::Warn && line.who == row.id);
    let mut troubles: Vec<_> = troubles.take(TROUBLES).collect();
    troubles.reverse();
    for (index, line) in troubles.into_iter().enumerate() {
        let text = format!("{}: {}", ago(model.now.saturating_sub(line.at)), line.text);
        page.put(if index == 0 { "lately" } else { "" }, line.level.into(), [text]);
    }
    page.lines
}

struct Page {
    lines: Vec<Fact>,
    room: usize,
}

impl Page {
    /// Adds facts to a line as far as they fit, and continues on the next line.
    fn put(&mut self, label: &'static str, tone: Tone, facts: impl IntoIterator<Item = String>) {
        let mut line = String::new();
        let mut label = label;
        for fact in facts {
            if !line.is_empty() && width(&line) + width(BETWEEN) + width(&fact) > self.room {
                self.lines.push(Fact { label, tone, text: std::mem::take(&mut line) });
                label = "";
            }
            if !line.is_empty() {
                line.push_str(BETWEEN);
            }
            line.push_str(&cut(&fact, self.room));
        }
        if !line.is_empty() {
            self.lines.push(Fact { label, tone, text: line });
        }
    }
}

fn place(row: &Row, server: &Server) -> Vec<String> {
    let mut facts = vec![match server.transport {
        TransportKind::Child => format!("{} over stdio", server.target),
        TransportKind::Http => format!("{} over HTTP", server.target),
        TransportKind::Sse => format!("{} over HTTP with SSE", server.target),
    }];
    facts.extend(server.connection.child.map(|pid| format!("process {pid}")));
    facts.extend(row.memory.map(|memory| format!("{} of memory", bytes(memory))));
    facts
}

fn connection(server: &Server) -> Vec<String> {
    let connection = &server.connection;
    let mut facts = vec![many(connection.dials, "attempt", "attempts")];
    facts.push(format!("{} failed", connection.dials_failed));
    facts.push(format!("lost {}", many(connection.losses, "time", "times")));
    facts.extend(connection.took_ms.map(|took| format!("the last took {}", span_ms(took))));
    facts
}

fn calls(server: &Server) -> Vec<String> {
    let calls = &server.calls;
    let mut facts = vec![format!("{} in flight", server.in_flight), format!("{} waiting", server.waiting)];
    facts.push(format!("tools: {}", calls.tools.words()));
    facts.push(format!("other: {}", calls.other.words()));
    facts.push(format!("{} retried", calls.retried));
    let more = [
        (calls.cancelled, "cancelled"),
        (calls.resumed, "resumed"),
        (calls.retries_refused, "not retried (budget)"),
        (calls.answered_early, "answered before it was ready"),
    ];
    facts.extend(more.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")));
    facts
}

fn latency(server: &Server) -> Vec<String> {
    let latency = &server.latency;
    let percentiles = [("p50", latency.p50_us), ("p95", latency.p95_us), ("p99", latency.p99_us)];
    let mut facts: Vec<String> =
        percentiles.iter().filter_map(|(name, value)| Some(format!("{name} {}", took_us((*value)?)))).collect();
    if !facts.is_empty() {
        facts.push(format!("of {}", latency.count));
    }
    facts
}

fn breaker(server: &Server) -> Vec<String> {
    let breaker = &server.breaker;
    let held = |word: &str, tries_in_ms: Option<u64>, why: &Option<String>| {
        let tries = tries_in_ms.map_or(String::new(), |wait| format!(", tried in {}", span_ms(wait)));
        let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        format!("{word}{tries}{why}")
    };
    let mut facts = vec![held(breaker.state.word(), breaker.tries_in_ms, &breaker.why)];
    let tools = breaker.tools.iter();
    facts.extend(
        tools.map(|tool| held(&format!("tool {} {}", tool.tool, tool.state.word()), tool.tries_in_ms, &tool.why)),
    );
    facts
}

fn limit(limit: &Limit) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(limit.rate.map(|rate| format!("{} per second, {} at once", rate.per_second, rate.burst)));
    facts.extend(limit.paused_ms.map(|left| format!("the server asks for a pause of {}", span_ms(left))));
    if limit.slowed > 0 {
        facts.push(format!("{} had to wait", many(limit.slowed, "call", "calls")));
    }
    facts
}

fn user(process: &ProcessInfo, now: u64) -> Vec<String> {
    let mut facts = vec![match &process.client {
        Some(client) => format!("{} {}", client.name, client.version).trim_end().to_owned(),
        None => "a client that has not named itself".to_owned(),
    }];
    let parent = process.parent.as_ref();
    facts.extend(parent.map(|parent| format!("started by {} (process {})", parent.name, parent.pid)));
    let age = span_ms(now.saturating_sub(process.started_at));
    facts.push(format!("through mendline {} (process {}) for {age}", process.mendline, process.pid));
    facts.extend(process.configuration.as_ref().map(|file| format!("from {file}")));
    facts
}

fn many(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Formats an age; less than a second is "just now".
pub(crate) fn ago(millis: u64) -> String {
    match millis {
        0..1_000 => "just now".to_owned(),
        _ => format!("{} ago", span_ms(millis)),
    }
}

/// Formats a number of bytes.
pub(crate) fn bytes(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    match bytes / MIB {
        0..10 => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
        mebi @ 10..10_240 => format!("{mebi} MiB"),
        mebi => format!("{} GiB", mebi / 1024),
    }
}
