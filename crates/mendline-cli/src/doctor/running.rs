//! Servers that run already, as their own Mendline reports them.
//!
//! A running server is asked first. A second copy of a command would say nothing about the first one, and may disturb it:
//! many servers hold a port, a database or a browser that only one process can have.

use mendline::control::Registry;
use mendline::control::snapshot::{BreakerState, Server, StateKind};
use mendline::control::words::span_ms;
use mendline::os::processes::{self, State};

use super::report::Section;
use super::step::Step;
use crate::status::report::{Report, Row, UnresponsiveProcess};
use crate::target::ServerSelector;
use crate::untrusted_text::counted;

const LAYER: &str = "running";

/// Age from which the last error of a ready server is not mentioned.
const RECENT_MS: u64 = 10 * 60 * 1_000;

/// The servers of one name that run.
#[derive(Default)]
pub(crate) struct Running {
    servers: Vec<Row>,
    unresponsive: Vec<UnresponsiveProcess>,
}

impl Running {
    /// Asks every running Mendline of this user.
    pub(crate) fn find() -> Running {
        let Report { servers, unresponsive, .. } = Report::of(Registry::of_user().snapshots());
        Running { servers, unresponsive }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.unresponsive.is_empty()
    }

    /// Returns what the commands call them.
    pub(crate) fn names(&self) -> Vec<String> {
        let unresponsive = self.unresponsive.iter().map(|it| format!("{}#{}", it.name, it.pid));
        self.servers.iter().map(|row| row.id.clone()).chain(unresponsive).collect()
    }

    /// Takes the selected servers out.
    pub(crate) fn take(&mut self, wanted: &ServerSelector) -> Running {
        let servers = self.servers.extract_if(.., |row| wanted.is_or_becomes(&row.server.name, row.process.pid));
        let servers = servers.collect();
        let unresponsive = self.unresponsive.extract_if(.., |it| wanted.is_or_becomes(&it.name, it.pid)).collect();
        Running { servers, unresponsive }
    }

    /// Splits off those that are not reached at this place: servers of another file with the same name.
    pub(crate) fn elsewhere(&mut self, place: &str) -> Running {
        let servers = self.servers.extract_if(.., |row| row.server.target != place).collect();
        Running { servers, unresponsive: Vec::new() }
    }

    /// Splits them into single servers.
    pub(crate) fn each(self) -> Vec<Running> {
        let servers = self.servers.into_iter().map(|row| Running { servers: vec![row], unresponsive: Vec::new() });
        let unresponsive =
            self.unresponsive.into_iter().map(|it| Running { servers: Vec::new(), unresponsive: vec![it] });
        servers.chain(unresponsive).collect()
    }

    /// Returns the name and the place of the first one.
    pub(crate) fn title(&self) -> (String, String) {
        match (self.servers.first(), self.unresponsive.first()) {
            (Some(row), _) => (row.id.clone(), row.server.target.clone()),
            (None, Some(it)) => (format!("{}#{}", it.name, it.pid), String::new()),
            (None, None) => (String::new(), String::new()),
        }
    }

    /// Returns whether a process of the server may be alive, so that another one would be a second copy.
    pub(crate) fn has_process(&self) -> bool {
        !self.unresponsive.is_empty() || self.servers.iter().any(|row| row.server.connection.child.is_some())
    }

    /// Reports the state of each.
    pub(crate) fn examine(&self, section: &mut Section) {
        for row in &self.servers {
            section.add(state(row));
            row.server.connection.child.and_then(process).into_iter().for_each(|step| section.add(step));
            breaker(&row.server, &row.id).into_iter().for_each(|step| section.add(step));
            if let Some(left) = row.server.limit.paused_ms.filter(|left| *left > 0) {
                let words = format!("the server asked for a pause, of which {} are left", span_ms(left));
                section.add(Step::warning("limit", words).advice("Calls wait until then").fact("pausedMs", left));
            }
        }
        for it in &self.unresponsive {
            let words = format!("its Mendline (process {}): {}", it.pid, it.why);
            let advice = format!(
                "It hangs or is stopped; `ps {}` shows its state. A restart of its client starts a new one",
                it.pid
            );
            section.add(Step::failed(LAYER, words).advice(advice).fact("pid", it.pid));
        }
    }
}

/// Reports the state that Mendline sees.
fn state(row: &Row) -> Step {
    let (server, id) = (&row.server, &row.id);
    let client = row.process.client_name().map(|client| format!(" for {client}")).unwrap_or_default();
    let who = format!("Mendline (process {}){client}", row.process.pid);
    let since = span_ms(server.state.for_ms);
    let why = server.state.why.as_ref().or(server.last_error.as_ref().map(|error| &error.what));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let step = match server.state.kind {
        StateKind::Ready => Step::ok(LAYER, format!("{who}: ready for {since}, {}", calls(server))),
        StateKind::Idle => Step::ok(LAYER, format!("{who}: idle for {since}; the next call connects it")),
        StateKind::Starting => Step::warning(LAYER, format!("{who}: starting for {since}, no answer yet"))
            .advice("It may still be starting, or no client has sent a handshake; `mendline logs` shows its output"),
        StateKind::Stopping => Step::warning(LAYER, format!("{who}: stopping for {since}")),
        StateKind::Reconnecting => Step::failed(LAYER, format!("{who}: {}{why}", server.state.words()))
            .advice(format!("Mendline goes on trying; `mendline logs {id}` shows what happened")),
        StateKind::Parked => Step::failed(LAYER, format!("{who}: parked for {since}{why}")).advice(format!(
            "Mendline tries it once a minute, and when it is called. When the cause is removed, `mendline reconnect {id}` tries it at once"
        )),
        StateKind::NeedsLogin => Step::failed(LAYER, format!("{who}: needs login{why}"))
            .advice(format!(
                "Renew the credential where the server is configured and restart the client, or `mendline reconnect {id}` if \
                 the server accepts it again"
            ))
            .needs_login(),
        StateKind::Isolated => Step::failed(LAYER, format!("{who}: isolated for {since} by the operator"))
            .advice(format!("`mendline resume {id}` sends calls to it again")),
    };
    let silence = server.silence();
    let recent =
        server.last_error.as_ref().filter(|error| server.state.kind == StateKind::Ready && error.ago_ms < RECENT_MS);
    let recent = recent.map(|error| format!("last error {} ago: {}", span_ms(error.ago_ms), error.what));
    let kind = serde_json::to_value(server.state.kind).unwrap_or_default();
    step.details(silence.into_iter().chain(recent))
        .fact("state", kind)
        .fact("pid", row.process.pid)
        .fact("id", id.as_str())
}

fn calls(server: &Server) -> String {
    let now = match (server.in_flight, server.waiting) {
        (0, 0) => String::new(),
        (out, waiting) => format!("; {out} in flight, {waiting} waiting"),
    };
    format!("calls: {}{now}", server.calls.all().words())
}

/// Reports a process that exists but does not run.
fn process(pid: u32) -> Option<Step> {
    let step = match processes::state(pid)? {
        State::Stopped => Step::failed("process", format!("its process {pid} is stopped, so that it answers nothing"))
            .advice(format!("`kill -CONT {pid}` lets it go on; a debugger or Ctrl-Z may have stopped it")),
        State::Ended => Step::failed("process", format!("its process {pid} has ended"))
            .advice("Mendline should start it again within a second; `mendline status` shows whether it does"),
        State::Alive => Step::ok("process", format!("its process {pid} is alive")),
    };
    Some(step.fact("child", pid))
}

fn breaker(server: &Server, id: &str) -> Option<Step> {
    let breaker = &server.breaker;
    let why = breaker.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let logs = format!("`mendline logs {id} --level warn` shows the failures");
    match (breaker.state, breaker.tools.as_slice()) {
        (BreakerState::Open, _) => Some(
            Step::failed("breaker", format!("the circuit breaker is {}, and calls are rejected{why}", breaker.words()))
                .advice(logs),
        ),
        (BreakerState::HalfOpen, _) => {
            Some(Step::warning("breaker", format!("half open: the next call decides{why}")).advice(logs))
        }
        // The state of the server says that it is isolated.
        (BreakerState::Isolated, _) | (BreakerState::Closed, []) => None,
        (BreakerState::Closed, tools) => {
            let names = tools.iter().map(|tool| tool.tool.as_str()).collect::<Vec<_>>().join(", ");
            let words = format!("calls of {} are rejected: {names}", counted(tools.len(), "tool"));
            Some(Step::warning("breaker", words).advice(logs))
        }
    }
}
