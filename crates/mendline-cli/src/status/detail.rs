//! Everything about one server, for a query by name.

use std::fmt;

use mendline::control::snapshot::StateKind;
use mendline::control::words::{span_ms, took_us};

use super::page::{size, tone, via};
use super::report::Row;
use crate::next_step::next_step;
use crate::style::Style;
use crate::untrusted_text::one_line;

/// Everything about one server.
pub(super) fn detail(row: &Row, style: Style, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Row { server, process, .. } = row;
    let state = tone(server.state.kind).paint(&one_line(&server.state.words()), style);
    writeln!(f, "{}  {state}", style.bold(&one_line(&row.id)))?;
    let mut line = |title: &str, text: String| {
        // Any part may be untrusted: the name of a client, an error of a server.
        writeln!(f, "  {}  {}", style.faint(&format!("{title:10}")), one_line(&text))
    };
    if let Some(why) = server.state.why.as_ref().filter(|_| server.state.kind == StateKind::Reconnecting) {
        line("because", why.clone())?;
    }
    line("process", format!("{}, mendline {}", process.pid, process.mendline))?;
    let client =
        process.client.as_ref().map(|client| format!("{} {}", client.name, client.version).trim_end().to_owned());
    let parent = process.parent.as_ref().map(|parent| format!("started by {} (process {})", parent.name, parent.pid));
    let client = client.into_iter().chain(parent).collect::<Vec<_>>().join(", ");
    if !client.is_empty() {
        line("client", client)?;
    }
    if let Some(file) = &process.configuration {
        line("configured", format!("in {file}"))?;
    }
    let child = server.connection.child.map(|pid| format!(", process {pid}")).unwrap_or_default();
    let memory = row.child_memory.map(|memory| match memory.processes {
        1 => format!(", {}", size(memory)),
        several => format!(", {} in {several} processes", size(memory)),
    });
    line("reached", format!("{} {}{child}{}", via(server.transport), server.target, memory.unwrap_or_default()))?;
    if let Some(login) = &row.login {
        line("login", login.words())?;
    }
    if let Some(credential) = server.credential.as_ref().filter(|it| it.renewals + it.failures > 0) {
        let why = credential.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let counts = format!("{} renewed, {} failed", credential.renewals, credential.failures);
        line("credential", format!("{}, {counts}{why}", credential.state))?;
    }
    if row.fruitless_today > 0 {
        line("", format!("{} requests about its login were fruitless today, of at most 300", row.fruitless_today))?;
    }
    let connection = &server.connection;
    let took = connection.took_ms.map(|took| format!("; the last took {}", span_ms(took))).unwrap_or_default();
    line(
        "connection",
        format!("{} made, {} failed, {} lost{took}", connection.dials, connection.dials_failed, connection.losses),
    )?;
    let calls = &server.calls;
    line("tool calls", calls.tools.words())?;
    line("other", calls.other.words())?;
    line(
        "",
        format!(
            "{} retried, {} resumed, {} cancelled, {} answered before the server was ready",
            calls.retried, calls.resumed, calls.cancelled, calls.answered_early
        ),
    )?;
    if calls.retries_refused > 0 {
        line("", format!("{} not retried: the retry budget was spent", calls.retries_refused))?;
    }
    if let Some(changes) = server.lists.words() {
        line("lists", changes)?;
    }
    line("now", format!("{} in flight, {} waiting", server.in_flight, server.waiting))?;
    if let Some(silence) = server.silence() {
        line("", silence)?;
    }
    if let (Some(p50), Some(p95), Some(p99)) = (server.latency.p50_us, server.latency.p95_us, server.latency.p99_us) {
        line("latency", format!("p50 {}, p95 {}, p99 {}", took_us(p50), took_us(p95), took_us(p99)))?;
    }
    let why = server.breaker.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    line("breaker", format!("{}{why}", server.breaker.words()))?;
    for tool in &server.breaker.tools {
        let why = tool.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        line("", format!("{} {}{why}", tool.tool, tool.state.word()))?;
    }
    if !server.limit.words().is_empty() {
        let burst = server.limit.rate.map(|rate| format!(", {} at once", rate.burst)).unwrap_or_default();
        line("limit", format!("{}{burst}; {} had to wait", server.limit.words(), server.limit.slowed))?;
    }
    if let Some(error) = &server.last_error {
        line("last error", format!("{} ago: {}", span_ms(error.ago_ms), error.what))?;
    }
    if let Some(next) = server.state.next_in_ms {
        line("next try", format!("in {}", span_ms(next)))?;
    }
    match next_step(&row.id, server) {
        Some(step) => line("next step", step),
        None => Ok(()),
    }
}
