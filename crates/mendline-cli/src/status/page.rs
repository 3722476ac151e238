//! The text output: a table of all servers, or everything about one ([`super::detail`]).

use std::fmt;
use std::io::IsTerminal;

use mendline::control::snapshot::{BreakerState, Server, StateKind, TransportKind};
use mendline::control::words::{Severity, span_ms, took_us};
use mendline::os::terminal;

use super::detail::detail;
use super::memory::Memory;
use super::report::{ProbeOutcome, Probed, Report, Row};
use super::table::{Cell, Column, Table, Tone, shortened};
use crate::next_step::next_step;
use crate::prose::folded;
use crate::style::Style;
use crate::untrusted_text::one_line;

/// Age from which an error of a healthy server is left out of the table.
const RECENT_MS: u64 = 60 * 60 * 1_000;

/// The column that is shortened last, and explained below the row.
const STATE: &str = "STATE";

/// Returns the width of the output: that of the terminal, or unlimited without one.
pub(super) fn width() -> usize {
    let of_terminal = || {
        let stdout = std::io::stdout();
        stdout.is_terminal().then(|| terminal::size(&stdout)).flatten()
    };
    match of_terminal() {
        Some(size) if size.columns > 0 => usize::from(size.columns),
        // A pipe gets everything.
        _ => usize::MAX,
    }
}

/// A report as text.
pub(super) struct Page<'a> {
    report: &'a Report,
    style: Style,
    width: usize,
}

impl<'a> Page<'a> {
    pub(super) fn new(report: &'a Report, style: Style, width: usize) -> Page<'a> {
        Page { report, style, width }
    }

    fn columns(&self) -> Vec<Column> {
        let Report { servers, unresponsive, probed, .. } = self.report;
        let (others, trials) = (unresponsive.len(), probed.len());
        // Unresponsive processes, and servers that do not run, have only a name and a state.
        let of = |cell: &dyn Fn(&Row) -> Cell| -> Vec<Cell> {
            let empty = std::iter::repeat_n(Cell::default(), others + trials);
            servers.iter().map(cell).chain(empty).collect()
        };
        let count = |number: &dyn Fn(&Server) -> u64, tone: Tone| {
            of(&|row| match number(&row.server) {
                0 => Cell::new("0", Tone::Faint),
                some => Cell::new(some.to_string(), tone),
            })
        };
        let took = |micros: &dyn Fn(&Server) -> Option<u64>| {
            of(&|row| micros(&row.server).map(|micros| took_us(micros).replace(' ', "")).unwrap_or_default().into())
        };
        let names = servers.iter().map(|row| Cell::new(&row.id, Tone::Bold));
        let names = names.chain(unresponsive.iter().map(|it| Cell::new(format!("{}#{}", it.name, it.pid), Tone::Bold)));
        let names = names.chain(probed.iter().map(|it| Cell::new(&it.name, Tone::Bold)));
        let states = servers.iter().map(|row| Cell::new(row.server.state.words(), tone(row.server.state.kind)));
        let states = states.chain(unresponsive.iter().map(|it| Cell::new(&it.why, Tone::Red)));
        let states = states.chain(probed.iter().map(|it| Cell::new(trial(it), trial_tone(it.outcome))));
        let vias = servers.iter().map(|row| via(row.server.transport).into());
        let vias = vias.chain(std::iter::repeat_n(Cell::default(), others));
        let vias = vias.chain(probed.iter().map(|it| via(it.transport).into()));
        let is_any = |so: &dyn Fn(&Server) -> bool| servers.iter().any(|row| so(&row.server));
        // The state shows an isolated server already.
        let is_sick = |it: &Server| matches!(it.breaker.state, BreakerState::Open | BreakerState::HalfOpen);
        let breakers = is_any(&|it| is_sick(it) || !it.breaker.tools.is_empty());
        let mut columns = vec![Column::names("SERVER", names.collect())];
        if servers.iter().any(|row| row.process.client_name().is_some()) {
            columns.push(Column::text("CLIENT", 3, of(&client)).down_to([14, 10, 8]));
        }
        columns.extend([
            Column::text("VIA", 6, vias.collect()),
            Column::text(STATE, 0, states.collect()).down_to([32, 24, 16]),
            Column::text("BREAKER", if breakers { 3 } else { 10 }, of(&breaker)),
        ]);
        if is_any(&|it| !it.limit.words().is_empty()) {
            let paused = is_any(&|it| it.limit.paused_ms.is_some());
            columns.push(Column::text("LIMIT", if paused { 3 } else { 8 }, of(&limit)));
        }
        let unknown = is_any(&|it| it.calls.all().unknown > 0);
        columns.extend([
            Column::numbers("NOW", 7, of(&now)),
            Column::numbers("OK", 2, count(&|it| it.calls.all().ok, Tone::Plain)),
            Column::numbers("ERRORS", 4, count(&|it| it.calls.all().answered_with_error(), Tone::Yellow)),
            // Rejected calls have failed, too.
            Column::numbers("FAILED", 1, count(&|it| it.calls.all().not_run(), Tone::Yellow)),
            Column::numbers("RETRIED", 5, count(&|it| it.calls.retried, Tone::Plain)),
            Column::numbers("UNKNOWN", if unknown { 3 } else { 5 }, count(&|it| it.calls.all().unknown, Tone::Yellow)),
            Column::numbers("P50", 7, took(&|it| it.latency.p50_us)),
            Column::numbers("P95", 4, took(&|it| it.latency.p95_us)),
            Column::numbers("P99", 7, took(&|it| it.latency.p99_us)),
            Column::numbers("LOST", 6, count(&|it| it.connection.losses, Tone::Yellow)),
        ]);
        if is_any(&|it| it.connection.child.is_some()) {
            let pid = |row: &Row| row.server.connection.child.map(|pid| pid.to_string()).unwrap_or_default().into();
            let memory = |row: &Row| row.child_memory.map(size).unwrap_or_default().into();
            columns.push(Column::numbers("CHILD", 8, of(&pid)));
            columns.push(Column::numbers("MEMORY", 8, of(&memory)));
        }
        columns
    }

    /// Returns the remark below a row.
    fn remark(&self, row: &Row, place: usize) -> Option<String> {
        let server = &row.server;
        let tools = server
            .breaker
            .tools
            .iter()
            .find_map(|tool| tool.why.as_ref().map(|why| format!("breaker of {}: {why}", tool.tool)));
        let breaker = server.breaker.why.as_ref().map(|why| format!("breaker: {why}")).or(tools);
        let is_recent = |ago_ms: u64| ago_ms < RECENT_MS || server.state.kind.severity() > Severity::Healthy;
        let error = server.last_error.as_ref().filter(|error| is_recent(error.ago_ms));
        let error = error.map(|error| format!("last error {} ago: {}", span_ms(error.ago_ms), error.what));
        let is_said = |error: &String| server.state.why.as_ref().is_some_and(|why| error.ends_with(why.as_str()));
        // A reason that the table shows in full is not repeated.
        let is_whole = server.state.words().chars().count() <= place;
        let says_why = matches!(server.state.kind, StateKind::Parked | StateKind::NeedsLogin);
        let error = error.filter(|error| !(says_why && is_whole && is_said(error)));
        server.silence().into_iter().chain(breaker).chain(error).reduce(|first, second| format!("{first}; {second}"))
    }

    fn summary(&self) -> String {
        let Report { servers, unresponsive, probed, .. } = self.report;
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut parts = Vec::new();
        if !servers.is_empty() {
            let kinds = self.report.counts();
            let kinds =
                kinds.iter().map(|(kind, count)| tone(*kind).paint(&format!("{count} {}", kind.word()), self.style));
            parts.push(format!("{}: {}", counted(servers.len(), "server"), kinds.collect::<Vec<_>>().join(", ")));
        }
        match unresponsive.len() {
            0 => {}
            1 => parts.push("1 process does not answer".to_owned()),
            several => parts.push(format!("{several} processes do not answer")),
        }
        if !probed.is_empty() {
            let answers = probed.iter().filter(|it| it.outcome == ProbeOutcome::Answers).count();
            parts.push(format!("{} not running, of which {answers} would answer", counted(probed.len(), "server")));
        }
        parts.join("; ")
    }

    /// Returns the next step for the server that needs one most.
    fn hint(&self) -> Option<String> {
        let servers = self.report.servers.iter();
        let steps = servers.filter_map(|row| Some((row.server.state.kind, next_step(&row.id, &row.server)?)));
        // Of several servers in one state, the first.
        let running = steps.reduce(|worst, step| if step.0 > worst.0 { step } else { worst }).map(|(_, step)| step);
        let fails = self.report.probed.iter().find(|it| it.outcome.severity() == Severity::Unhealthy);
        running.or_else(|| fails.map(|it| format!("`mendline doctor {}` finds the cause", it.name)))
    }
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([only], []) = (self.report.servers.as_slice(), self.report.probed.as_slice())
            && self.report.unresponsive.is_empty()
            && self.report.is_asked_by_name
        {
            return detail(only, self.style, f);
        }
        let table = Table::fit(self.columns(), self.width);
        let place = table.width_of(STATE);
        let mut lines = table.lines(self.style).into_iter();
        writeln!(f, "{}", lines.next().unwrap_or_default())?;
        for (index, line) in lines.enumerate() {
            writeln!(f, "{line}")?;
            if let Some(remark) = self.report.servers.get(index).and_then(|row| self.remark(row, place)) {
                writeln!(f, "{}", self.style.faint(&shortened(&format!("  └ {}", one_line(&remark)), self.width)))?;
            }
        }
        writeln!(f, "\n{}", self.summary())?;
        logins(self.report, self.style, self.width, f)?;
        let hint = self.hint().map(|hint| folded("", &one_line(&hint), self.width)).unwrap_or_default();
        hint.iter().try_for_each(|line| writeln!(f, "{}", self.style.faint(line)))
    }
}

/// Writes a line for each stored login.
pub(super) fn logins(report: &Report, style: Style, width: usize, f: &mut impl fmt::Write) -> fmt::Result {
    for login in &report.logins {
        let words = format!("login to {}: {}", one_line(&login.server), one_line(&login.words()));
        writeln!(f, "{}", style.faint(&shortened(&words, width)))?;
    }
    Ok(())
}

/// Returns the colour of a state.
pub(super) fn tone(kind: StateKind) -> Tone {
    match kind.severity() {
        _ if kind == StateKind::Idle => Tone::Faint,
        Severity::Healthy => Tone::Green,
        Severity::Transient => Tone::Yellow,
        Severity::Unhealthy => Tone::Red,
    }
}

fn breaker(row: &Row) -> Cell {
    let breaker = &row.server.breaker;
    let is_closed = breaker.state == BreakerState::Closed && breaker.tools.is_empty();
    Cell::new(breaker.words(), if is_closed { Tone::Faint } else { Tone::Yellow })
}

fn limit(row: &Row) -> Cell {
    let limit = &row.server.limit;
    Cell::new(limit.words(), if limit.paused_ms.is_some() { Tone::Yellow } else { Tone::Plain })
}

/// Returns the client that uses the server.
fn client(row: &Row) -> Cell {
    Cell::new(row.process.client_name().unwrap_or_default(), Tone::Plain)
}

/// Formats the calls in flight, and those that wait.
fn now(row: &Row) -> Cell {
    match (row.server.in_flight, row.server.waiting) {
        (0, 0) => Cell::new("0", Tone::Faint),
        (out, 0) => Cell::new(out.to_string(), if row.server.silent_calls > 0 { Tone::Yellow } else { Tone::Plain }),
        (out, waiting) => Cell::new(format!("{out}+{waiting}"), Tone::Yellow),
    }
}

/// Returns the transport of a server, in one word.
pub(super) fn via(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::Child => "stdio",
        TransportKind::Http => "http",
        TransportKind::Sse => "sse",
    }
}

fn trial(probed: &Probed) -> String {
    let took = span_ms(probed.took_ms);
    match (probed.outcome, &probed.server, &probed.why) {
        (ProbeOutcome::Answers, Some(who), _) => format!("not running; {who} answers in {took}"),
        (ProbeOutcome::Answers, None, _) => format!("not running; answers in {took}"),
        (ProbeOutcome::NeedsLogin, _, _) => "not running; needs login".to_owned(),
        (ProbeOutcome::Fails, _, Some(why)) => format!("not running; fails: {why}"),
        (ProbeOutcome::Fails, _, None) => "not running; fails".to_owned(),
        (ProbeOutcome::Disabled, _, _) => "disabled".to_owned(),
    }
}

fn trial_tone(outcome: ProbeOutcome) -> Tone {
    match outcome {
        ProbeOutcome::Answers => Tone::Green,
        ProbeOutcome::Disabled => Tone::Faint,
        ProbeOutcome::NeedsLogin | ProbeOutcome::Fails => Tone::Red,
    }
}

/// Formats an amount of memory.
pub(super) fn size(memory: Memory) -> String {
    const MIB: u64 = 1024 * 1024;
    match memory.bytes {
        bytes if bytes < 10 * MIB => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
        bytes if bytes < 10 * 1024 * MIB => format!("{} MiB", bytes / MIB),
        bytes => format!("{} GiB", bytes / 1024 / MIB),
    }
}

#[cfg(test)]
mod tests {
    use mendline::control::snapshot::{
        Breaker, Calls, ClientInfo, Connection, Facts, LastError, Latency, Limit, Lists, Outcomes, ProcessInfo, Rate,
        State,
    };

    use super::*;

    fn row(name: &str, kind: StateKind) -> Row {
        let state =
            State { kind, for_ms: 7_200_000, why: None, reason: None, attempt: None, attempts: None, next_in_ms: None };
        let breaker = Breaker { state: BreakerState::Closed, tries_in_ms: None, why: None, tools: Vec::new() };
        let server = Server {
            name: name.to_owned(),
            transport: TransportKind::Child,
            target: "npx".to_owned(),
            state,
            breaker,
            limit: Limit::default(),
            in_flight: 0,
            waiting: 0,
            silent_calls: 0,
            silent_for_ms: None,
            silent_call: None,
            lists: Lists::default(),
            calls: Calls { tools: Outcomes { ok: 412, ..Outcomes::default() }, ..Calls::default() },
            latency: Latency { count: 412, p50_us: Some(1_200), p95_us: Some(8_000), p99_us: Some(40_000) },
            connection: Connection { dials: 1, child: Some(4711), ..Connection::default() },
            last_error: None,
            credential: None,
            sessions: 0,
            facts: Facts::default(),
        };
        let memory = Memory { bytes: 45 << 20, processes: 3 };
        let client = Some(ClientInfo { name: "claude-code".to_owned(), version: "2.1".to_owned() });
        let process = ProcessInfo { pid: 4_700, mendline: "0.1.0".to_owned(), client, ..ProcessInfo::default() };
        Row { id: name.to_owned(), process, server, child_memory: Some(memory), login: None, fruitless_today: 0 }
    }

    fn lost() -> Row {
        let mut row = row("atlassian", StateKind::Reconnecting);
        let state = &mut row.server.state;
        (state.attempt, state.attempts, state.next_in_ms) = (Some(3), Some(10), Some(4_000));
        state.why = Some("connection refused".to_owned());
        row.server.last_error = Some(LastError { what: "connection refused".to_owned(), ago_ms: 12_000 });
        (row.server.transport, row.server.connection.child, row.child_memory) = (TransportKind::Sse, None, None);
        (row.server.connection.losses, row.server.waiting) = (2, 2);
        row
    }

    fn report(servers: Vec<Row>) -> Report {
        Report {
            version: 2,
            servers,
            unresponsive: Vec::new(),
            probed: Vec::new(),
            logins: Vec::new(),
            is_asked_by_name: false,
        }
    }

    fn drawn(report: &Report, width: usize) -> String {
        Page::new(report, Style::none(), width).to_string()
    }

    #[test]
    fn r12_silent_calls_are_named_below_their_server() {
        let mut row = row("notes", StateKind::Ready);
        let server = &mut row.server;
        (server.in_flight, server.silent_calls) = (2, 1);
        (server.silent_for_ms, server.silent_call) = (Some(42_000), Some("create_note".to_owned()));
        let mut report = report(vec![row]);
        let words = "1 call has had no answer for 42 s: create_note";
        let table = drawn(&report, 200);
        assert!(table.contains(&format!("\n  └ {words}\n")), "{table}");
        report.is_asked_by_name = true;
        let detail = drawn(&report, 200);
        assert!(detail.contains(&format!("2 in flight, 0 waiting\n              {words}\n")), "{detail}");
    }

    #[test]
    fn wide_terminal_gets_every_column() {
        let report = report(vec![lost(), row("notes", StateKind::Ready)]);
        assert_eq!(
            drawn(&report, 150),
            "\
SERVER     CLIENT       VIA    STATE                           NOW   OK  ERRORS  FAILED  RETRIED  UNKNOWN    P50    P95   P99  LOST  CHILD  MEMORY
atlassian  claude-code  sse    reconnecting 3/10, next in 4 s  0+2  412       0       0        0        0  1.2ms  8.0ms  40ms     2
  └ last error 12 s ago: connection refused
notes      claude-code  stdio  ready 2 h                         0  412       0       0        0        0  1.2ms  8.0ms  40ms     0   4711  45 MiB

2 servers: 1 ready, 1 reconnecting
`mendline reconnect atlassian` tries it now; `mendline doctor atlassian` finds the cause
"
        );
        assert!(drawn(&report, usize::MAX).contains("BREAKER"), "in a pipe there is room for all of it");
    }

    #[test]
    fn narrow_terminal_gets_fewer_columns_and_no_wrapped_line() {
        let report = report(vec![lost(), row("notes", StateKind::Ready)]);
        assert_eq!(
            drawn(&report, 80),
            "\
SERVER     CLIENT       STATE                            OK  ERRORS  FAILED
atlassian  claude-code  reconnecting 3/10, next in 4 s  412       0       0
  └ last error 12 s ago: connection refused
notes      claude-code  ready 2 h                       412       0       0

2 servers: 1 ready, 1 reconnecting
`mendline reconnect atlassian` tries it now; `mendline doctor atlassian` finds
the cause
"
        );
        for width in 60..200 {
            let drawn = drawn(&report, width);
            assert!(drawn.lines().all(|line| line.chars().count() <= width), "{width}:\n{drawn}");
        }
    }

    #[test]
    fn reason_is_shown_once_in_the_table_or_below() {
        let mut parked = row("ghost", StateKind::Parked);
        let why = "`/opt/a/very/long/path/to/a/server` was not found; is it installed and on PATH?";
        parked.server.state.why = Some(why.to_owned());
        parked.server.last_error = Some(LastError { what: why.to_owned(), ago_ms: 1_000 });
        let report = report(vec![parked]);
        assert_eq!(drawn(&report, 300).matches("was not found").count(), 1, "{}", drawn(&report, 300));
        let narrow = drawn(&report, 110);
        assert!(narrow.contains("└ last error 1 s ago: `/opt/a/very/long"), "{narrow}");
        assert!(narrow.contains("once it is repaired, run `mendline reconnect ghost`"), "{narrow}");
    }

    #[test]
    fn u08_rows_of_one_name_differ_at_every_width() {
        let twins = ["everything#22153", "everything#22188"].map(|id| Row { id: id.to_owned(), ..lost() });
        let report = report(twins.into());
        for width in 40..150 {
            let drawn = drawn(&report, width);
            assert!(drawn.contains("everything#22153 ") && drawn.contains("everything#22188 "), "{width}:\n{drawn}");
            assert!(drawn.lines().all(|line| line.chars().count() <= width), "{width}:\n{drawn}");
        }
    }

    #[test]
    fn u08_client_of_long_names_is_shown_in_80_columns() {
        let long = Row { id: "modelcontextprotocol-server-1".to_owned(), ..lost() };
        assert_eq!(
            drawn(&report(vec![long]), 80).lines().take(2).collect::<Vec<_>>(),
            [
                "SERVER                         CLIENT      STATE                      OK  FAILED",
                "modelcontextprotocol-server-1  claude-co…  reconnecting 3/10, next…  412       0",
            ]
        );
    }

    #[test]
    fn old_error_of_a_healthy_server_is_not_shown() {
        let mut well = row("notes", StateKind::Ready);
        well.server.last_error = Some(LastError { what: "gone".to_owned(), ago_ms: RECENT_MS });
        assert!(!drawn(&report(vec![well]), 200).contains("gone"));
    }

    #[test]
    fn open_breaker_and_limit_have_columns() {
        let mut sick = row("notes", StateKind::Ready);
        (sick.server.breaker.state, sick.server.breaker.tries_in_ms) = (BreakerState::Open, Some(12_000));
        sick.server.breaker.why = Some("5 calls in a row have failed".to_owned());
        sick.server.limit.rate = Some(Rate { burst: 5, per_second: 0.5 });
        let drawn = drawn(&report(vec![sick]), 90);
        assert!(drawn.contains("open 12 s") && drawn.contains("└ breaker: 5 calls in a row"), "{drawn}");
    }

    #[test]
    fn named_server_is_shown_in_full() {
        let mut report = report(vec![lost()]);
        report.is_asked_by_name = true;
        assert_eq!(
            drawn(&report, 80),
            "\
atlassian  reconnecting 3/10, next in 4 s
  because     connection refused
  process     4700, mendline 0.1.0
  client      claude-code 2.1
  reached     sse npx
  connection  1 made, 0 failed, 2 lost
  tool calls  412 ok
  other       0 ok
              0 retried, 0 resumed, 0 cancelled, 0 answered before the server was ready
  now         0 in flight, 2 waiting
  latency     p50 1.2 ms, p95 8.0 ms, p99 40 ms
  breaker     closed
  last error  12 s ago: connection refused
  next try    in 4 s
  next step   `mendline reconnect atlassian` tries it now; `mendline doctor atlassian` finds the cause
"
        );
    }
}
