//! A server that is killed every twenty seconds, and callers who should hardly notice.
//!
//! Eight callers make calls of 50 ms without a pause, every other one with an effect that must not happen twice. The server
//! is killed with SIGKILL and is back a second later: a child because Mendline starts it again, a server at a URL because
//! the test does. Each execution is in a ledger, a file that survives every kill, so what ran is known and not concluded.
//!
//! Two minutes belong to the tests; `cargo xtask soak` runs the same for as long as one likes. How fast it recovers depends
//! on the machine and is reported; only far too slow is a failure.

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

/// How often the server is killed. More often, and a child would be in a crash loop by its exits: five in a minute.
const EVERY: Duration = Duration::from_secs(20);
/// How long it takes to be back.
const AWAY: Duration = Duration::from_secs(1);
const CALLERS: usize = 8;
/// How long a call takes at the server.
const CALL_MS: u64 = 50;
/// The longest that a call can take while a server comes back, with much to spare.
const PATIENCE: Duration = Duration::from_secs(60);

/// The variable by which `cargo xtask soak` asks for more.
const MINUTES: &str = "MENDLINE_SOAK_MINUTES";

fn length() -> Duration {
    let minutes = std::env::var(MINUTES).ok().map_or(2, |text| text.parse().unwrap());
    Duration::from_secs(60 * minutes)
}

/// Who is killed.
trait KillableServer {
    /// Kills it, and comes back when it is gone.
    fn kill(&mut self);
    /// A second later: starts it again, unless that is Mendline's business.
    fn come_back(&mut self);
    /// How often each call ran, by its key.
    fn executions(&self) -> BTreeMap<String, usize>;
}

struct Remote(FaultyServer);

impl KillableServer for Remote {
    fn kill(&mut self) {
        self.0.kill();
    }

    fn come_back(&mut self) {
        self.0.come_back().unwrap();
    }

    fn executions(&self) -> BTreeMap<String, usize> {
        self.0.executions()
    }
}

/// Mendline's child, which takes a second to start.
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
        // The server reads its whole ledger at every call; a ledger for each life keeps that short.
        let _ = fs::rename(&self.ledger, self.ledger_of(self.lives));
        self.lives += 1;
    }

    fn come_back(&mut self) {}

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
    /// What Mendline said of a call that it had to answer itself; nothing if the server answered.
    outcome: Option<String>,
}

/// A kill: when it was begun, when nothing was left, and when the server could be reached again.
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
                self.victim.come_back();
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

    /// Takes one answer, if there is one, and lets its caller go on.
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
        // Five times what is promised on a machine that has nothing else to do.
        assert!(middle <= 5 * Duration::from_secs(3) && last <= 5 * Duration::from_secs(10), "{recoveries:?}");
    }

    /// From the moment at which the server was back to the first call that it answered.
    fn recovery(&self, kill: &Kill) -> Option<Duration> {
        let successes = self.calls.iter().filter(|call| call.outcome.is_none() && call.answered >= kill.back);
        successes.map(|call| call.answered - kill.back).min()
    }

    /// What happened to a call, next to the kill that came nearest.
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
    Some(said.unwrap_or_else(|| message.to_string()))
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
    let arguments = ["--", mendline.to_str().unwrap(), "demo-server", "--temper", "slow-start=1s"];
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
