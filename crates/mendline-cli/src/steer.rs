//! `mendline reconnect`, `isolate` and `resume`: commands to running servers.
//!
//! A name selects every process that has a server with it. Each process gets the command; then its state is polled for
//! a moment, and the outcome is printed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use mendline::control::snapshot::{Server, StateKind};
use mendline::control::words::{span, span_ms};
use mendline::control::{Command, Process, Registry, Silence};

use crate::cli::{NEGATIVE, UNKNOWN};
use crate::style::Style;
use crate::outside::one_line;
use crate::target::{ServerSelector, nothing_runs, unknown};

/// Time limit for a process to accept a command.
const TAKING: Duration = Duration::from_secs(1);

/// Time limit for a new connection.
const WAITING: Duration = Duration::from_secs(5);

/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);

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

const STEER_EXAMPLES: &str = "\
Examples:
  mendline isolate notes         its calls fail at once, with that reason
  mendline resume notes          its calls are sent again
  mendline isolate --all

Exit codes: 0 ok, 1 a process does not answer, 3 nothing runs, or nothing of that name.";

/// Options of `mendline isolate` and `mendline resume`.
#[derive(Args)]
#[command(after_help = STEER_EXAMPLES)]
pub(crate) struct SteerOptions {
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
    steer(&options.which, |meant| meant.reconnect(!options.no_wait))
}

/// Runs `mendline isolate`.
pub(crate) fn isolate(options: &SteerOptions) -> ExitCode {
    steer(&options.which, Meant::isolate)
}

/// Runs `mendline resume`.
pub(crate) fn resume(options: &SteerOptions) -> ExitCode {
    steer(&options.which, Meant::resume)
}

/// Outcome for one server.
struct Outcome {
    is_well: bool,
    /// True if something was changed, or could not be changed.
    is_news: bool,
    words: String,
}

impl Outcome {
    fn well(words: impl Into<String>) -> Outcome {
        Outcome { is_well: true, is_news: true, words: words.into() }
    }

    fn ill(words: impl Into<String>) -> Outcome {
        Outcome { is_well: false, is_news: true, words: words.into() }
    }

    /// The server was in that state before.
    fn idle(words: impl Into<String>) -> Outcome {
        Outcome { is_well: true, is_news: false, words: words.into() }
    }
}

impl From<Silence> for Outcome {
    fn from(silence: Silence) -> Outcome {
        Outcome::ill(silence.to_string())
    }
}

/// A selected server.
struct Meant {
    process: Process,
    pid: u32,
    /// State before the command.
    before: Server,
}

fn steer(which: &Which, does: impl Fn(&Meant) -> Outcome + Sync) -> ExitCode {
    let registry = Registry::of_user();
    let wanted = which.name.as_deref().map(ServerSelector::parse);
    let is_meant = |name: &str, pid: u32| wanted.as_ref().is_none_or(|wanted| wanted.is(name, pid));
    let (mut meant, mut names, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for found in registry.snapshots() {
        match found.answer {
            Ok(snapshot) => {
                let pid = snapshot.process.pid;
                for before in snapshot.servers {
                    names.push(before.name.clone());
                    if is_meant(&before.name, pid) {
                        meant.push(Meant { process: found.process.clone(), pid, before });
                    }
                }
            }
            Err(silence) => {
                let (name, pid) = (&found.process.name, found.process.pid);
                names.push(name.clone());
                if is_meant(name, pid) {
                    outcomes.push((format!("{} (process {pid})", one_line(name)), Outcome::from(silence)));
                }
            }
        }
    }
    if meant.is_empty() && outcomes.is_empty() {
        match wanted {
            Some(wanted) => eprintln!("{}", unknown(&wanted, &names)),
            None => eprintln!("{}", nothing_runs()),
        }
        return ExitCode::from(UNKNOWN);
    }
    // One thread per server, so that a slow one does not delay the others.
    std::thread::scope(|scope| {
        let at_work: Vec<_> = meant.iter().map(|meant| (meant, scope.spawn(|| does(meant)))).collect();
        for (meant, worker) in at_work {
            let outcome = worker.join().unwrap_or_else(|_| Outcome::ill("the outcome is unknown"));
            outcomes.push((format!("{} (process {})", one_line(&meant.before.name), meant.pid), outcome));
        }
    });
    let style = Style::for_stdout();
    // With --all, only changes are printed.
    let is_told = |outcome: &Outcome| !which.all || outcome.is_news;
    if !outcomes.iter().any(|(_, outcome)| is_told(outcome)) {
        println!("nothing to do: all {} are in that state already", outcomes.len());
    }
    for (who, outcome) in outcomes.iter().filter(|(_, outcome)| is_told(outcome)) {
        let words = one_line(&outcome.words);
        let words = if outcome.is_well { style.green(&words) } else { style.red(&words) };
        println!("{}: {words}", style.bold(who));
    }
    match outcomes.iter().all(|(_, outcome)| outcome.is_well) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NEGATIVE),
    }
}

impl Meant {
    fn reconnect(&self, waits: bool) -> Outcome {
        let name = &self.before.name;
        if self.before.state.kind == StateKind::Isolated {
            return Outcome::ill(format!("it is isolated; run `mendline resume {name}` first"));
        }
        let begun = Instant::now();
        if let Err(silence) = self.tell(Command::Reconnect) {
            return silence.into();
        }
        if !waits {
            return Outcome::well("reconnecting");
        }
        let was = &self.before.connection;
        let is_new = |server: &Server| server.connection.dials > was.dials || server.connection.child != was.child;
        let settled = self.watch(WAITING, |server| match server.state.kind {
            StateKind::Ready => is_new(server),
            // Without a handshake there is nothing that it could have answered.
            StateKind::Starting => is_new(server) && server.connection.child.is_some() && server.calls.answered == 0,
            StateKind::Parked | StateKind::NeedsLogin => is_new(server),
            // Over HTTP the connection is made when there is something to send.
            StateKind::Idle => server.connection.child.is_none(),
            _ => false,
        });
        let took = span(begun.elapsed());
        match settled {
            Ok(server) => match server.state.kind {
                StateKind::Ready => Outcome::well(format!("ready again, in {took}")),
                StateKind::Starting => {
                    Outcome::well(format!("restarted, in {took}; no client has initialized it yet"))
                }
                StateKind::Idle => Outcome::well("disconnected; the next call connects it"),
                StateKind::Parked | StateKind::NeedsLogin => Outcome::ill(server.state.words()),
                _ => {
                    let why = server.state.why.as_deref().unwrap_or("no answer yet");
                    let next = server.state.next_in_ms.map(|next| format!(", next attempt in {}", span_ms(next)));
                    Outcome::ill(format!("still trying after {took}{}: {why}", next.unwrap_or_default()))
                }
            },
            Err(silence) => silence.into(),
        }
    }

    fn isolate(&self) -> Outcome {
        if self.before.state.kind == StateKind::Isolated {
            return Outcome::idle("it is isolated already");
        }
        let name = &self.before.name;
        self.steer(
            Command::Isolate,
            |server| server.state.kind == StateKind::Isolated,
            || format!("isolated; nothing is sent to it until `mendline resume {name}`"),
        )
    }

    fn resume(&self) -> Outcome {
        if self.before.state.kind != StateKind::Isolated {
            return Outcome::idle("it is not isolated");
        }
        self.steer(Command::Resume, |server| server.state.kind != StateKind::Isolated, || "resumed".to_owned())
    }

    fn steer(&self, what: Command, is_done: impl Fn(&Server) -> bool, words: impl FnOnce() -> String) -> Outcome {
        match self.tell(what).and_then(|()| self.watch(TAKING, &is_done)) {
            Ok(server) if is_done(&server) => Outcome::well(words()),
            Ok(_) => Outcome::ill("the process accepted the command, but has not carried it out"),
            Err(silence) => silence.into(),
        }
    }

    fn tell(&self, what: Command) -> Result<(), Silence> {
        self.process.command(what, Some(&self.before.name), TAKING).map(drop)
    }

    /// Polls until a condition holds or the time is over. Returns the last state.
    fn watch(&self, within: Duration, is_so: impl Fn(&Server) -> bool) -> Result<Server, Silence> {
        let deadline = Instant::now() + within;
        loop {
            let snapshot = self.process.snapshot(TAKING)?;
            let server = snapshot.servers.into_iter().find(|server| server.name == self.before.name);
            let server = server.ok_or(Silence::Gone)?;
            if is_so(&server) || Instant::now() >= deadline {
                return Ok(server);
            }
            std::thread::sleep(LOOK);
        }
    }
}
