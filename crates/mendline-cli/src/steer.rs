//! `mendline reconnect`, `isolate` and `resume`: a person's hand on servers that run.
//!
//! A name means every process that has a server of it. What was asked is passed on to each; then we look until it has
//! happened, for a moment, and say what came of it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use mendline::control::snapshot::{Server, StateKind};
use mendline::control::words::{span, span_ms};
use mendline::control::{Command, Process, Registry, Silence};

use crate::cli::{NEGATIVE, UNKNOWN};
use crate::ink::Ink;
use crate::outside::one_line;
use crate::target::{Wanted, nothing_runs, unknown};

/// How long a process has to take a command.
const TAKING: Duration = Duration::from_secs(1);

/// How long a new connection is waited for.
const WAITING: Duration = Duration::from_secs(5);

/// How often we look.
const LOOK: Duration = Duration::from_millis(20);

const RECONNECT_EXAMPLES: &str = "\
Examples:
  mendline reconnect notes       wherever it runs
  mendline reconnect notes#4711  the one of this process
  mendline reconnect --all

A child is ended and started anew; calls that wait are sent then. Its clients notice nothing.
Exit codes: 0 ready again, 1 not yet, or not at all; 3 nothing runs, or nothing of that name.";

/// What `mendline reconnect` is asked.
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
  mendline isolate notes         calls are answered at once: it was taken out by hand
  mendline resume notes          they go to it again
  mendline isolate --all

Exit codes: 0 ok, 1 a process does not answer, 3 nothing runs, or nothing of that name.";

/// What `mendline isolate` and `mendline resume` are asked.
#[derive(Args)]
#[command(after_help = STEER_EXAMPLES)]
pub(crate) struct SteerOptions {
    #[command(flatten)]
    which: Which,
}

/// Which servers are meant.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// A server by its name, or by NAME#PID or PID
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Every server that runs
    #[arg(long)]
    all: bool,
}

/// Makes new connections.
pub(crate) fn reconnect(options: &ReconnectOptions) -> ExitCode {
    steer(&options.which, |meant| meant.reconnect(!options.no_wait))
}

/// Takes servers out.
pub(crate) fn isolate(options: &SteerOptions) -> ExitCode {
    steer(&options.which, Meant::isolate)
}

/// Brings servers back.
pub(crate) fn resume(options: &SteerOptions) -> ExitCode {
    steer(&options.which, Meant::resume)
}

/// What came of it, for one server.
struct Outcome {
    is_well: bool,
    /// Whether anything was done, or could not be.
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

    /// It was so before.
    fn idle(words: impl Into<String>) -> Outcome {
        Outcome { is_well: true, is_news: false, words: words.into() }
    }
}

impl From<Silence> for Outcome {
    fn from(silence: Silence) -> Outcome {
        Outcome::ill(silence.to_string())
    }
}

/// A server that somebody means.
struct Meant {
    process: Process,
    pid: u32,
    /// How it was before anything was done.
    before: Server,
}

fn steer(which: &Which, does: impl Fn(&Meant) -> Outcome + Sync) -> ExitCode {
    let registry = Registry::of_user();
    let wanted = which.name.as_deref().map(Wanted::parse);
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
    // Each on a thread of its own: one that takes its time does not keep the others waiting.
    std::thread::scope(|scope| {
        let at_work: Vec<_> = meant.iter().map(|meant| (meant, scope.spawn(|| does(meant)))).collect();
        for (meant, worker) in at_work {
            let outcome = worker.join().unwrap_or_else(|_| Outcome::ill("it could not be found out"));
            outcomes.push((format!("{} (process {})", one_line(&meant.before.name), meant.pid), outcome));
        }
    });
    let ink = Ink::for_stdout();
    // Whoever means everything wants to read about what has changed.
    let is_told = |outcome: &Outcome| !which.all || outcome.is_news;
    if !outcomes.iter().any(|(_, outcome)| is_told(outcome)) {
        println!("nothing to do: all {} were so before", outcomes.len());
    }
    for (who, outcome) in outcomes.iter().filter(|(_, outcome)| is_told(outcome)) {
        let words = one_line(&outcome.words);
        let words = if outcome.is_well { ink.green(&words) } else { ink.red(&words) };
        println!("{}: {words}", ink.bold(who));
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
            return Outcome::ill(format!("it is isolated; `mendline resume {name}` brings it back first"));
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
            // Nobody has greeted it yet, so there is nothing that it could have answered.
            StateKind::Starting => is_new(server) && server.connection.child.is_some() && server.calls.answered == 0,
            StateKind::Parked | StateKind::NeedsLogin => is_new(server),
            // Over HTTP it is connected when there is something to send.
            StateKind::Idle => server.connection.child.is_none(),
            _ => false,
        });
        let took = span(begun.elapsed());
        match settled {
            Ok(server) => match server.state.kind {
                StateKind::Ready => Outcome::well(format!("ready again, in {took}")),
                StateKind::Starting => {
                    Outcome::well(format!("started anew, in {took}; nobody has asked it anything yet"))
                }
                StateKind::Idle => Outcome::well("disconnected; it is connected with the next call"),
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
            return Outcome::idle("it was isolated before");
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
            return Outcome::idle("it was not isolated");
        }
        self.steer(Command::Resume, |server| server.state.kind != StateKind::Isolated, || "resumed".to_owned())
    }

    fn steer(&self, what: Command, is_done: impl Fn(&Server) -> bool, words: impl FnOnce() -> String) -> Outcome {
        match self.tell(what).and_then(|()| self.watch(TAKING, &is_done)) {
            Ok(server) if is_done(&server) => Outcome::well(words()),
            Ok(_) => Outcome::ill("it was told so, and has not done it"),
            Err(silence) => silence.into(),
        }
    }

    fn tell(&self, what: Command) -> Result<(), Silence> {
        self.process.command(what, Some(&self.before.name), TAKING).map(drop)
    }

    /// Looks until it is so, or for as long; gives how the server is then.
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
