//! A soak test: the server is killed every twenty seconds while clients call.
//!
//! Eight callers make calls of 50 ms without a pause, every other one unsafe. The server is killed with SIGKILL and is
//! back one second later: Mendline restarts a child, and the test restarts a server at a URL. A ledger, a file that
//! survives every kill, records each execution.
//!
//! The tests take two minutes; `cargo xtask soak` runs longer. The time to recovery depends on the machine and is
//! reported; only a far too long one is a failure.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test prints its report")]

mod programs;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mendline_peers::caller::Caller;
use mendline_peers::faulty_server::{FaultyServer, executions};
use mendline_peers::processes::{children_of, eventually, is_gone};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The interval of the kills. A shorter one would be a crash loop: five exits in a minute.
const EVERY: Duration = Duration::from_secs(20);
/// The time until the server is back.
const AWAY: Duration = Duration::from_secs(1);
const CALLERS: usize = 8;
/// The duration of a call at the server.
const CALL_MS: u64 = 50;
/// The longest time of a call while a server comes back, with a large margin.
const PATIENCE: Duration = Duration::from_secs(60);

/// The variable with which `cargo xtask soak` sets the duration.
const MINUTES: &str = "MENDLINE_SOAK_MINUTES";

fn length() -> Duration {
    let minutes = std::env::var(MINUTES).ok().map_or(2, |text| text.parse().unwrap());
    Duration::from_secs(60 * minutes)
}

/// The server that is killed.
trait KillableServer {
    /// Kills it and waits until it is gone.
    fn kill(&mut self);
    /// Starts it again after one second, unless Mendline does.
    fn restart(&mut self);
    /// Returns how often each call ran, by key.
    fn executions(&self) -> BTreeMap<String, usize>;
}

struct Remote(FaultyServer);

impl KillableServer for Remote {
    fn kill(&mut self) {
        self.0.kill();
    }

    fn restart(&mut self) {
        self.0.restart().unwrap();
    }

    fn executions(&self) -> BTreeMap<String, usize> {
        self.0.executions()
    }
}

/// A child of Mendline, which takes one second to start.
struct Child {
    mendline: i32,
    ledger: PathBuf,
    lives: usize,
}

impl Child {
    fn server(&self) -> Option<i32> {
        let is_server = |pid: &i32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).any(|word| word == b"demo-server") && !is_gone(*pid)
        };
        children_of(self.mendline).into_iter().find(is_server)
    }

    fn ledger_of(&self, life: usize) -> PathBuf {
        self.ledger.with_extension(life.to_string())
    }
}

impl KillableServer for Child {
    fn kill(&mut self) {
        let mut server = None;
        assert!(eventually(PATIENCE, || {
            server = self.server();
            server.is_some()
        }));
        let pid = server.unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        assert!(eventually(PATIENCE, || is_gone(pid)));
        // The server reads its whole ledger at every call. A new ledger for each process keeps it short.
        let _ = fs::rename(&self.ledger, self.ledger_of(self.lives));
        self.lives += 1;
    }

    fn restart(&mut self) {}

    fn executions(&self) -> BTreeMap<String, usize> {
        let mut all = executions(&self.ledger);
        for life in 0..self.lives {
            for (key, times) in executions(&self.ledger_of(life)) {
                *all.entry(key).or_default() += times;
            }
        }
        all
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Unsafe,
}

/// One call from its first byte to its answer.
struct Call {
    key: String,
    kind: Kind,
    sent: Instant,
    answered: Instant,
    /// The outcome that Mendline reported, or nothing if the server answered.
    outcome: Option<String>,
}

/// A kill: when it began, when the server was gone, and when it was reachable again.
struct Kill {
    begun: Instant,
    gone: Instant,
    back: Instant,
}

struct Soak {
    caller: Caller,
    victim: Box<dyn KillableServer>,
    open: BTreeMap<String, (usize, Kind, Instant)>,
    made: usize,
    calls: Vec<Call>,
    kills: Vec<Kill>,
}

impl Soak {
    fn run(mut self, name: &str) {
        self.caller.initialize(PATIENCE).unwrap();
        let (begun, length) = (Instant::now(), length());
        for caller in 0..CALLERS {
            self.call_next(caller);
        }
        let mut next_kill = begun + EVERY;
        let mut returns: Option<Instant> = None;
        while begun.elapsed() < length {
            let now = Instant::now();
            if let Some(back) = returns.filter(|back| *back <= now) {
                returns = None;
                self.victim.restart();
                self.kills.last_mut().unwrap().back = back.max(Instant::now());
            } else if now >= next_kill && begun.elapsed() + EVERY / 2 < length {
                self.victim.kill();
                let gone = Instant::now();
                self.kills.push(Kill { begun: now, gone, back: gone + AWAY });
                returns = Some(gone + AWAY);
                next_kill += EVERY;
            }
            self.recv_answer(true);
        }
        while !self.open.is_empty() {
            self.recv_answer(false);
        }
        self.judge(name, begun.elapsed());
    }

    /// Reads one answer, if there is one, and lets its caller continue.
    fn recv_answer(&mut self, goes_on: bool) {
        let oldest = self.open.values().map(|(_, _, sent)| *sent).min().unwrap();
        assert!(oldest.elapsed() < PATIENCE, "a call was not answered; log:\n{}", self.caller.log());
        let Ok((answered, message)) = self.caller.next(Duration::from_millis(20)) else { return };
        let Some(id) = message["id"].as_str().filter(|_| message.get("method").is_none()) else { return };
        let (caller, kind, sent) = self.open.remove(id).unwrap_or_else(|| panic!("answered twice: {message}"));
        let outcome = outcome(&message);
        self.calls.push(Call { key: id.to_owned(), kind, sent, answered, outcome });
        if goes_on {
            self.call_next(caller);
        }
    }

    fn call_next(&mut self, caller: usize) {
        let (kind, tool) =
            if self.made.is_multiple_of(2) { (Kind::Read, "lookup") } else { (Kind::Unsafe, "create_note") };
        let key = format!("{}", self.made);
        self.made += 1;
        let sent = Instant::now();
        self.caller.call(&key, tool, &json!({ "key": key, "delayMs": CALL_MS })).unwrap();
        self.open.insert(key, (caller, kind, sent));
    }

    fn judge(&self, name: &str, took: Duration) {
        let ran = self.victim.executions();
        let times = |call: &Call| ran.get(&call.key).copied().unwrap_or(0);
        let of = |kind: Kind| self.calls.iter().filter(move |call| call.kind == kind);
        let (reads, writes) = (of(Kind::Read).count(), of(Kind::Unsafe).count());
        let failed_reads: Vec<&Call> = of(Kind::Read).filter(|call| call.outcome.is_some()).collect();
        let unknown: Vec<&Call> = of(Kind::Unsafe).filter(|call| call.outcome.as_deref() == Some("unknown")).collect();
        let failed_writes: Vec<&Call> =
            of(Kind::Unsafe).filter(|call| call.outcome.as_deref().is_some_and(|it| it != "unknown")).collect();
        let not_in_flight: Vec<&&Call> = unknown
            .iter()
            .filter(|call| !self.kills.iter().any(|kill| call.sent < kill.gone && kill.begun < call.answered))
            .collect();
        let twice: Vec<&Call> = of(Kind::Unsafe).filter(|call| times(call) > 1).collect();
        let lost: Vec<&Call> = of(Kind::Unsafe).filter(|call| call.outcome.is_none() && times(call) != 1).collect();
        let untrue: Vec<&Call> = failed_writes.iter().copied().filter(|call| times(call) > 0).collect();
        let mut recoveries: Vec<Duration> = self.kills.iter().filter_map(|kill| self.recovery(kill)).collect();
        recoveries.sort_unstable();
        let slowest = self.calls.iter().map(|call| call.answered - call.sent).max().unwrap();

        println!("{name}: {} calls in {:.0} s, {} kills", self.calls.len(), took.as_secs_f64(), self.kills.len());
        println!("  reads   {reads}, failed {} ({:.3} %)", failed_reads.len(), percent(failed_reads.len(), reads));
        println!("  unsafe  {writes}, unknown {}, otherwise failed {}", unknown.len(), failed_writes.len());
        println!("  ran twice {}, answered and did not run {}", twice.len(), lost.len());
        let middle = recoveries[recoveries.len() / 2];
        let last = recoveries[recoveries.len() - 1];
        println!("  first success after the server was back: p50 {middle:?}, max {last:?}; slowest call {slowest:?}");

        let show = |calls: &[&Call]| calls.iter().take(5).map(|call| self.describe(call)).collect::<Vec<_>>();
        assert!(percent(failed_reads.len(), reads) <= 0.1, "{:?}", show(&failed_reads));
        assert!(failed_writes.is_empty(), "only `unknown` may happen to an unsafe call: {:?}", show(&failed_writes));
        let show_unknown: Vec<&Call> = not_in_flight.iter().map(|call| **call).collect();
        assert!(not_in_flight.is_empty(), "unknown, and not in flight at a kill: {:?}", show(&show_unknown));
        assert!(twice.is_empty(), "ran twice: {:?}", show(&twice));
        assert!(lost.is_empty(), "answered, and did not run once: {:?}", show(&lost));
        assert!(untrue.is_empty(), "reported as not run, but ran: {:?}", show(&untrue));
        assert_eq!(recoveries.len(), self.kills.len(), "it came back after every kill");
        // Five times the promise for an idle machine.
        assert!(middle <= 5 * Duration::from_secs(3) && last <= 5 * Duration::from_secs(10), "{recoveries:?}");
    }

    /// Returns the time from the return of the server to its first answer.
    fn recovery(&self, kill: &Kill) -> Option<Duration> {
        let successes = self.calls.iter().filter(|call| call.outcome.is_none() && call.answered >= kill.back);
        successes.map(|call| call.answered - kill.back).min()
    }

    /// Describes a call and the kill that was nearest to it.
    fn describe(&self, call: &Call) -> String {
        let kill = self.kills.iter().rfind(|kill| kill.begun < call.answered);
        let after = |at: Instant| kill.map(|kill| at.saturating_duration_since(kill.gone));
        let before = kill.map(|kill| kill.gone.saturating_duration_since(call.sent));
        format!(
            "{} {:?} {:?}: sent {before:?} before or {:?} after the server was gone, answered {:?} after",
            call.key,
            call.kind,
            call.outcome,
            after(call.sent),
            after(call.answered)
        )
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share for people to read")]
fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn outcome(message: &Value) -> Option<String> {
    if message["result"]["isError"] == false {
        return None;
    }
    let facts = [&message["result"]["_meta"]["dev.mendline/failure"]["outcome"], &message["error"]["data"]["outcome"]];
    let known = facts.iter().find_map(|fact| fact.as_str()).map(ToOwned::to_owned);
    Some(known.unwrap_or_else(|| message.to_string()))
}

fn caller(arguments: &[&str], environment: &[(&str, OsString)], folder: &Path) -> Caller {
    let mut command: Vec<OsString> =
        vec![programs::built().mendline.into(), "run".into(), "--no-log-files".into(), "--no-catalogue".into()];
    command.extend(arguments.iter().map(OsString::from));
    Caller::start(&command, environment, &folder.join("log")).unwrap()
}

fn soak(caller: Caller, victim: Box<dyn KillableServer>) -> Soak {
    Soak { caller, victim, open: BTreeMap::new(), made: 0, calls: Vec::new(), kills: Vec::new() }
}

#[test]
fn i3_soak_survives_child_killed_every_twenty_seconds() {
    let folder = TempDir::new().unwrap();
    let ledger = folder.path().join("ledger");
    let mendline = programs::built().mendline;
    let arguments = ["--", mendline.to_str().unwrap(), "demo-server", "--fault", "slow-start=1s"];
    let caller = caller(&arguments, &[("MENDLINE_DEMO_LEDGER", ledger.clone().into())], folder.path());
    let victim = Child { mendline: i32::try_from(caller.id()).unwrap(), ledger, lives: 0 };
    soak(caller, Box::new(victim)).run("a child");
}

#[test]
fn i3_soak_survives_http_server_killed_every_twenty_seconds() {
    let folder = TempDir::new().unwrap();
    let arguments = ["era=legacy", "answers=json"];
    let faulty = FaultyServer::start(&programs::built().faults, &arguments, &folder.path().join("ledger")).unwrap();
    let caller = caller(&[&faulty.url("/mcp")], &[], folder.path());
    soak(caller, Box::new(Remote(faulty))).run("a server at a URL");
}
