//! Measures `mendline serve` with many sessions: memory, cost per call, and the ends of sessions.
//!
//! Every figure is measured before an upstream over HTTP, where each client has a session of its own with the server,
//! and before a command, which the clients share.

mod catalogue;
mod flapping;

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::caller::Caller;
use super::contender::{Behind, PORT};
use super::run::Gateway;
use crate::http::remote::Remote;
use crate::plan::URL;
use crate::processes::{self, Processes};
use crate::sample::micros;

/// The path of the only server.
const PATH: &str = "/mcp";
/// The sessions with a call each.
const BUSY: usize = 1_000;
/// The sessions without one.
const IDLE: usize = 10_000;
/// The connections over which the cost per call is measured.
const CONNECTIONS: usize = 8;
/// The time that a waiting call takes at the server.
const WAIT: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"wait","arguments":{"ms":3000}}}"#;
/// The idle time before memory is read.
const REST: Duration = Duration::from_secs(2);

/// The verdicts of a run.
#[derive(Default)]
pub(super) struct Report {
    missed: usize,
}

impl Report {
    /// Prints a figure with its target.
    fn at_most(&mut self, what: &str, figure: f64, bound: f64, unit: &str) {
        let is_met = figure <= bound;
        self.missed += usize::from(!is_met);
        println!(
            "  {what:<58} {figure:>9.2} {unit}, target ≤ {bound} {unit}: {}",
            if is_met { "met" } else { "missed" }
        );
    }

    fn note(what: &str, figure: f64, unit: &str) {
        println!("  {what:<58} {figure:>9.2} {unit}");
    }
}

/// Reads `--mendline PATH [--quick] [--gate]`, measures and prints.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let at = args.iter().position(|arg| arg == "--mendline");
    let mendline = at.and_then(|at| args.get(at + 1)).ok_or("`--mendline PATH` is missing")?;
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let folder = std::env::temp_dir().join(format!("mendline-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    raise_file_limit();
    let bench = Bench { mendline: PathBuf::from(mendline), folder: folder.clone(), is_quick: has("--quick") };
    let measured = processes::adopt_orphans().and_then(|()| bench.run());
    let _ = std::fs::remove_dir_all(&folder);
    let report = measured.map_err(|error| error.to_string())?;
    match report.missed {
        missed if missed > 0 && has("--gate") => Err(format!("{missed} targets missed")),
        _ => Ok(()),
    }
}

/// The measured binary, and a folder for its state.
pub(super) struct Bench {
    mendline: PathBuf,
    folder: PathBuf,
    is_quick: bool,
}

impl Bench {
    fn run(&self) -> io::Result<Report> {
        let mut report = Report::default();
        for behind in Behind::ALL {
            println!("http to {}", behind.name());
            self.calls_in_flight(behind, &mut report)?;
            self.cost_per_call(behind, &mut report)?;
            self.idle_sessions(behind, &mut report)?;
        }
        catalogue::measure(self, &mut report)?;
        flapping::measure(self, &mut report)?;
        Ok(report)
    }

    /// Starts a gateway with state of its own.
    fn gateway(&self, flags: &[&str], target: &[String], upstream: Option<&str>) -> io::Result<Gateway> {
        let folder = &self.folder;
        let listen = format!("127.0.0.1:{PORT}");
        let text = |path: &Path| path.display().to_string();
        let mut command = vec!["env".to_owned()];
        command.push(format!("MENDLINE_STATE_DIR={}", text(&folder.join("state"))));
        command.push(format!("MENDLINE_RUNTIME_DIR={}", text(&folder.join("run"))));
        command.extend([text(&self.mendline), "serve".into(), "--listen".into(), listen]);
        command.extend(flags.iter().map(|&flag| flag.to_owned()));
        command.extend(target.iter().cloned());
        Gateway::start(&command, upstream, PATH).map_err(io::Error::other)
    }

    /// Starts a gateway before the upstream of this kind, and waits until it answers.
    fn before(&self, behind: Behind) -> io::Result<(Gateway, Option<Remote>)> {
        let remote = if behind == Behind::Http { Some(Remote::start()?) } else { None };
        let ours = std::env::current_exe()?.display().to_string();
        let target = match behind {
            Behind::Http => vec![URL.to_owned()],
            Behind::Stdio => vec!["--".to_owned(), ours, "upstream".to_owned()],
        };
        let mut gateway = self.gateway(&[], &target, remote.as_ref().map(Remote::url))?;
        gateway.connect()?;
        Ok((gateway, remote))
    }

    /// A call of each of [`BUSY`] sessions in flight or waiting.
    fn calls_in_flight(&self, behind: Behind, report: &mut Report) -> io::Result<()> {
        let (gateway, _remote) = self.before(behind)?;
        let processes = Processes::with_middle(gateway.id());
        let mut callers = Vec::new();
        for _ in 0..BUSY {
            let mut caller = Caller::connect(gateway.port(), PATH)?;
            let session = caller.open()?;
            caller.send("POST", Some(&session), WAIT)?;
            callers.push(caller);
        }
        // The last call needs longer than this.
        thread::sleep(Duration::from_secs(1));
        let written = processes.memory()?;
        let mut errors = 0.0;
        for caller in &mut callers {
            if let Err(error) = caller.receive(b"waited") {
                eprintln!("{error}");
                errors += 1.0;
            }
        }
        report.at_most("1,000 sessions with a call each: errors", errors, 0.0, "errors");
        report.at_most("1,000 sessions with a call each: memory", mib(written.pss), 60.0, "MiB");
        Report::note("1,000 sessions with a call each: peak", mib(processes.memory()?.peak), "MiB");
        Ok(())
    }

    /// The processor time of a call with one session and with a thousand.
    fn cost_per_call(&self, behind: Behind, report: &mut Report) -> io::Result<()> {
        let (gateway, _remote) = self.before(behind)?;
        let processes = Processes::with_middle(gateway.id());
        let connect = |_| Caller::connect(gateway.port(), PATH);
        let mut callers: Vec<Caller> = (0..CONNECTIONS).map(connect).collect::<io::Result<_>>()?;
        let sessions: Vec<String> = (0..BUSY).map(|_| callers[0].open()).collect::<io::Result<_>>()?;
        let calls = if self.is_quick { 8_000 } else { 40_000 };
        let mut ratios = Vec::new();
        let mut costs = Vec::new();
        for _ in 0..5 {
            let one = cost(&mut callers, &sessions[..1], calls, &processes)?;
            let thousand = cost(&mut callers, &sessions, calls, &processes)?;
            ratios.push(thousand / one);
            costs.push(one);
        }
        costs.sort_by(f64::total_cmp);
        ratios.sort_by(f64::total_cmp);
        Report::note("processor time of a call with one session", costs[2], "µs");
        report.at_most("processor time of a call, 1,000 sessions against one", ratios[2], 1.2, "×");
        Ok(())
    }

    /// Sessions without a call or a stream, and their ends.
    fn idle_sessions(&self, behind: Behind, report: &mut Report) -> io::Result<()> {
        let mut cost_of_end = Vec::new();
        for count in [IDLE / 10, IDLE] {
            let (gateway, _remote) = self.before(behind)?;
            let processes = Processes::with_middle(gateway.id());
            let mut caller = Caller::connect(gateway.port(), PATH)?;
            // The buffers of a first call do not belong to a session.
            let first = caller.open()?;
            caller.echo(&first)?;
            let before = processes.memory()?.pss;
            let begun = Instant::now();
            let sessions: Vec<String> = (0..count).map(|_| caller.open()).collect::<io::Result<_>>()?;
            let opened = begun.elapsed();
            thread::sleep(REST);
            let after = processes.memory()?.pss;
            let cpu = processes.cpu()?;
            let begun = Instant::now();
            for session in &sessions {
                caller.send("DELETE", Some(session), "")?;
                caller.receive(b"")?;
            }
            let ended = begun.elapsed();
            // The ends of sessions with the server follow the answers.
            thread::sleep(REST);
            let per_end = micros(processes.cpu()?.saturating_sub(cpu)) / count as f64;
            cost_of_end.push(per_end);
            if count == IDLE {
                report.at_most("10,000 idle sessions: memory", mib(after), 250.0, "MiB");
                let each = after.saturating_sub(before) as f64 / count as f64;
                report.at_most("an idle session", each, 20.0, "KiB");
                Report::note("opening 10,000 sessions", opened.as_secs_f64(), "s");
                Report::note("ending 10,000 sessions", ended.as_secs_f64(), "s");
                Report::note("processor time of an end, of 10,000", per_end, "µs");
            }
        }
        report.at_most("processor time of an end, of 10,000 against 1,000", cost_of_end[1] / cost_of_end[0], 2.0, "×");
        Ok(())
    }
}

/// Calls in turn with all sessions. Returns the processor time per call in microseconds.
fn cost(callers: &mut [Caller], sessions: &[String], calls: usize, processes: &Processes) -> io::Result<f64> {
    let mut sessions = sessions.iter().cycle();
    let width = callers.len();
    let mut round = |callers: &mut [Caller]| {
        for caller in callers.iter_mut() {
            caller.send("POST", sessions.next().map(String::as_str), super::caller::ECHO)?;
        }
        callers.iter_mut().try_for_each(|caller| caller.receive(b"hello there"))
    };
    for _ in 0..(calls / 10 / width) {
        round(callers)?;
    }
    let before = processes.cpu()?;
    for _ in 0..(calls / width) {
        round(callers)?;
    }
    Ok(micros(processes.cpu()?.saturating_sub(before)) / calls as f64)
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Raises the limit of open files to what the system allows: a thousand sessions have a connection each.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
