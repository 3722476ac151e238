//! `mendline reconnect`, `isolate` and `resume`: commands to running servers.
//!
//! A name selects every process that has a server with it. Each process gets the command; then its state is polled for
//! a moment, and the outcome is printed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use mendline::control::snapshot::{Server, StateKind};
use mendline::control::words::{span, span_ms};
use mendline::control::{Command, Process, QueryError, Registry};

use crate::cli::{NEGATIVE, UNKNOWN};
use crate::names;
use crate::next_step::next_step;
use crate::style::Style;
use crate::target::{ServerSelector, nothing_runs, unknown};
use crate::untrusted_text::one_line;

/// Time limit for a process to accept a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const RECONNECT_EXAMPLES: &str = "\
Examples:
  mendline reconnect notes       in every process that has it
  mendline reconnect notes#4711  only in this process
  mendline reconnect --all

A child is ended and started again; waiting calls are sent then. Clients stay connected.
Exit codes: 0 ready again, 1 not ready; 3 nothing runs, or nothing of that name.";

/// Options of `mendline reconnect`.
#[derive(Args)]
#[command(after_help = RECONNECT_EXAMPLES)]
pub(crate) struct ReconnectOptions {
    #[command(flatten)]
    which: Which,

    /// Do not wait for the outcome
    #[arg(long)]
    no_wait: bool,
}

const CONTROL_EXAMPLES: &str = "\
Examples:
  mendline isolate notes         its calls fail at once, with that reason
  mendline resume notes          its calls are sent again
  mendline isolate --all

Exit codes: 0 ok, 1 a process does not answer, 3 nothing runs, or nothing of that name.";

/// Options of `mendline isolate` and `mendline resume`.
#[derive(Args)]
#[command(after_help = CONTROL_EXAMPLES)]
pub(crate) struct ControlOptions {
    #[command(flatten)]
    which: Which,
}

/// Selection of servers.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// Server by its name, or by NAME#PID or PID
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Every running server
    #[arg(long)]
    all: bool,
}

/// Runs `mendline reconnect`.
pub(crate) fn reconnect(options: &ReconnectOptions) -> ExitCode {
    run_command(&options.which, |selected| selected.reconnect(!options.no_wait))
}

/// Runs `mendline isolate`.
pub(crate) fn isolate(options: &ControlOptions) -> ExitCode {
    run_command(&options.which, SelectedServer::isolate)
}

/// Runs `mendline resume`.
pub(crate) fn resume(options: &ControlOptions) -> ExitCode {
    run_command(&options.which, SelectedServer::resume)
}

/// Outcome for one server.
struct Outcome {
    is_ok: bool,
    /// True if something was changed, or could not be changed.
    is_change: bool,
    words: String,
}

impl Outcome {
    fn ok(words: impl Into<String>) -> Outcome {
        Outcome { is_ok: true, is_change: true, words: words.into() }
    }

    fn failed(words: impl Into<String>) -> Outcome {
        Outcome { is_ok: false, is_change: true, words: words.into() }
    }

    /// The server was in that state before.
    fn unchanged(words: impl Into<String>) -> Outcome {
        Outcome { is_ok: true, is_change: false, words: words.into() }
    }
}

impl From<QueryError> for Outcome {
    fn from(silence: QueryError) -> Outcome {
        Outcome::failed(silence.to_string())
    }
}

/// A selected server.
struct SelectedServer {
    process: Process,
    pid: u32,
    /// State before the command.
    before: Server,
}

/// A server of a running process, or a process that does not answer.
enum Found {
    Server(Box<SelectedServer>),
    Silent(Process, QueryError),
}

impl Found {
    fn name(&self) -> &str {
        match self {
            Found::Server(server) => &server.before.name,
            Found::Silent(process, _) => &process.name,
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Found::Server(server) => server.pid,
            Found::Silent(process, _) => process.pid,
        }
    }
}

/// Returns everything that runs, and the names.
fn found_servers() -> (Vec<Found>, Vec<String>) {
    let mut all = Vec::new();
    for found in Registry::of_user().snapshots() {
        let process = found.process;
        match found.snapshot {
            Ok(snapshot) => {
                let pid = snapshot.process.pid;
                let server = |before| Found::Server(Box::new(SelectedServer { process: process.clone(), pid, before }));
                all.extend(snapshot.servers.into_iter().map(server));
            }
            Err(silence) => all.push(Found::Silent(process, silence)),
        }
    }
    let names = all.iter().map(|found| found.name().to_owned()).collect();
    (all, names)
}

fn run_command(which: &Which, does: impl Fn(&SelectedServer) -> Outcome + Sync) -> ExitCode {
    let (found, names) = found_servers();
    let is_there = |wanted: &ServerSelector| found.iter().any(|it| wanted.is(it.name(), it.pid()));
    let wanted = which.name.as_deref().map(|name| names::selector(name, is_there));
    let is_selected = |it: &Found| wanted.as_ref().is_none_or(|wanted| wanted.is(it.name(), it.pid()));
    let (mut selected, mut outcomes) = (Vec::new(), Vec::new());
    for it in found.into_iter().filter(is_selected) {
        match it {
            Found::Server(server) => selected.push(*server),
            Found::Silent(process, silence) => {
                let who = format!("{} (process {})", one_line(&process.name), process.pid);
                outcomes.push((who, Outcome::from(silence)));
            }
        }
    }
    if selected.is_empty() && outcomes.is_empty() {
        match (wanted, &which.name) {
            (Some(wanted), Some(name)) => {
                eprintln!("{}", names::does_not_run(name).unwrap_or_else(|| unknown(&wanted, &names)));
            }
            _ => eprintln!("{}", nothing_runs()),
        }
        return ExitCode::from(UNKNOWN);
    }
    // One thread per server, so that a slow one does not delay the others.
    std::thread::scope(|scope| {
        let at_work: Vec<_> = selected.iter().map(|selected| (selected, scope.spawn(|| does(selected)))).collect();
        for (selected, worker) in at_work {
            let outcome = worker.join().unwrap_or_else(|_| Outcome::failed("the outcome is unknown"));
            outcomes.push((format!("{} (process {})", one_line(&selected.before.name), selected.pid), outcome));
        }
    });
    let style = Style::for_stdout();
    // With --all, only changes are printed.
    let is_shown = |outcome: &Outcome| !which.all || outcome.is_change;
    if !outcomes.iter().any(|(_, outcome)| is_shown(outcome)) {
        println!("nothing to do: all {} are in that state already", outcomes.len());
    }
    for (who, outcome) in outcomes.iter().filter(|(_, outcome)| is_shown(outcome)) {
        let words = one_line(&outcome.words);
        let words = if outcome.is_ok { style.green(&words) } else { style.red(&words) };
        println!("{}: {words}", style.bold(who));
    }
    match outcomes.iter().all(|(_, outcome)| outcome.is_ok) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NEGATIVE),
    }
}

impl SelectedServer {
    fn reconnect(&self, waits: bool) -> Outcome {
        let name = &self.before.name;
        if self.before.state.kind == StateKind::Isolated {
            return Outcome::failed(format!("it is isolated; run `mendline resume {name}` first"));
        }
        let begun = Instant::now();
        if let Err(silence) = self.send(Command::Reconnect) {
            return silence.into();
        }
        if !waits {
            return Outcome::ok("reconnecting");
        }
        let was = &self.before.connection;
        let is_new = |server: &Server| server.connection.dials > was.dials || server.connection.child != was.child;
        let settled = self.watch(CONNECT_TIMEOUT, |server| match server.state.kind {
            StateKind::Ready => is_new(server),
            // Without a handshake there is nothing that it could have answered.
            StateKind::Starting => {
                is_new(server) && server.connection.child.is_some() && server.calls.all().answered() == 0
            }
            StateKind::Parked => is_new(server),
            // Until the probe is answered, the server is in the state that it was in before.
            StateKind::NeedsLogin => is_new(server) && Duration::from_millis(server.state.for_ms) < begun.elapsed(),
            // Over HTTP the connection is made when there is something to send.
            StateKind::Idle => server.connection.child.is_none(),
            _ => false,
        });
        let took = span(begun.elapsed());
        match settled {
            Ok(server) => match server.state.kind {
                StateKind::Ready => Outcome::ok(format!("ready again, in {took}")),
                StateKind::Starting => Outcome::ok(format!("restarted, in {took}; no client has initialized it yet")),
                StateKind::Idle => Outcome::ok("disconnected; the next call connects it"),
                StateKind::Parked | StateKind::NeedsLogin => {
                    let step = next_step(name, &server).map(|step| format!("; {step}")).unwrap_or_default();
                    Outcome::failed(format!("{}{step}", server.state.words()))
                }
                _ => {
                    let why = server.state.why.as_deref().unwrap_or("no answer yet");
                    let next = server.state.next_in_ms.map(|next| format!(", next attempt in {}", span_ms(next)));
                    Outcome::failed(format!("still trying after {took}{}: {why}", next.unwrap_or_default()))
                }
            },
            Err(silence) => silence.into(),
        }
    }

    fn isolate(&self) -> Outcome {
        if self.before.state.kind == StateKind::Isolated {
            return Outcome::unchanged("it is isolated already");
        }
        let name = &self.before.name;
        self.run_command(
            Command::Isolate,
            |server| server.state.kind == StateKind::Isolated,
            || format!("isolated; nothing is sent to it until `mendline resume {name}`"),
        )
    }

    fn resume(&self) -> Outcome {
        if self.before.state.kind != StateKind::Isolated {
            return Outcome::unchanged("it is not isolated");
        }
        self.run_command(Command::Resume, |server| server.state.kind != StateKind::Isolated, || "resumed".to_owned())
    }

    fn run_command(&self, what: Command, is_done: impl Fn(&Server) -> bool, words: impl FnOnce() -> String) -> Outcome {
        match self.send(what).and_then(|()| self.watch(COMMAND_TIMEOUT, &is_done)) {
            Ok(server) if is_done(&server) => Outcome::ok(words()),
            Ok(_) => Outcome::failed("the process accepted the command, but has not carried it out"),
            Err(silence) => silence.into(),
        }
    }

    fn send(&self, what: Command) -> Result<(), QueryError> {
        self.process.command(what, Some(&self.before.name), COMMAND_TIMEOUT).map(drop)
    }

    /// Polls until a condition holds or the time is over. Returns the last state.
    fn watch(&self, within: Duration, is_so: impl Fn(&Server) -> bool) -> Result<Server, QueryError> {
        let deadline = Instant::now() + within;
        loop {
            let snapshot = self.process.snapshot(COMMAND_TIMEOUT)?;
            let server = snapshot.servers.into_iter().find(|server| server.name == self.before.name);
            let server = server.ok_or(QueryError::Gone)?;
            if is_so(&server) || Instant::now() >= deadline {
                return Ok(server);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
