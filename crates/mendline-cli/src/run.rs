//! `mendline run`: one client on our stdin and stdout, one server as a child.
//!
//! This puts the pieces together and does nothing else. The guard is started first, because no child may be started
//! without one. The driver runs as a task of a runtime with one thread, which is this one: a task is woken without a
//! system call, the outermost future is not.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use mendline::decisions::{ClientId, Config, Engine, UpstreamConfig, UpstreamId};
use mendline::driver::{Client, Driver, Ended};
use mendline::frontend::stdio;
use mendline::observe::log::{Log, LogLevel};
use mendline::transport::child::{ChildCommand, Children};
use mendline::transport::guard::Guard;
use mendline_wire::Limits;
use tokio::signal::unix::{SignalKind, signal};

use crate::GUARD;
use crate::cli::{NEGATIVE, RunOptions, USAGE};
use crate::name::Name;

/// The environment variable that says what to log when the command line does not.
const LOG_VARIABLE: &str = "MENDLINE_LOG";

/// Runs the bridge until its client has gone or somebody stops it.
pub(crate) fn run(options: RunOptions) -> ExitCode {
    match prepare(options) {
        Ok(bridge) => match bridge.run() {
            Ok(ended) if ended.ever_ready => ExitCode::SUCCESS,
            Ok(_) => ExitCode::from(NEGATIVE),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(NEGATIVE)
            }
        },
        Err(complaint) => {
            eprintln!("error: {complaint}");
            ExitCode::from(USAGE)
        }
    }
}

/// Everything that is needed to begin.
struct Bridge {
    config: Config,
    command: ChildCommand,
    log: Log,
}

fn prepare(options: RunOptions) -> Result<Bridge, String> {
    let RunOptions { name, call_timeout, log_level, target, mut command } = options;
    if let Some(target) = target {
        return Err(not_a_command(&target));
    }
    if command.is_empty() {
        return Err(NO_COMMAND.to_owned());
    }
    let program = command.remove(0);
    let name = name.unwrap_or_else(|| Name::of_command(&program, &command)).to_string();
    let mut upstream = UpstreamConfig::child(name.clone(), program.to_string_lossy());
    if let Some(call) = call_timeout {
        upstream.timeouts.call = call;
        upstream.timeouts.total = upstream.timeouts.total.max(call);
    }
    let log = Log::to_stderr(log_level_or_default(log_level)?, vec![name]);
    Ok(Bridge { config: Config::new(vec![upstream]), command: ChildCommand::new(program, command), log })
}

impl Bridge {
    fn run(self) -> std::io::Result<Ended> {
        let Bridge { config, command, log } = self;
        let guard = Guard::start("/proc/self/exe", vec![GUARD.into()]);
        if let Err(error) = &guard {
            log.say(LogLevel::Warn, &format!("no guard: the server may outlive a killed Mendline ({error})"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let stops = Stops::listen()?;
            let mut seen = 0;
            let (reader, writer) = stdio::open()?;
            let engine = Engine::new(config, fastrand::u64(..));
            let host = Children::new(vec![command], guard.ok());
            let client = Client { id: ClientId(1), upstream: UpstreamId(0), reader, writer };
            let driver = Driver::new(engine, Limits::default(), host, client, log);
            let task = tokio::spawn(driver.run(move |cx| stops.poll(&mut seen, cx)));
            task.await.map_err(std::io::Error::other)
        })
    }
}

/// The signals that mean "stop", counted by a task of their own: the driver asks in every round, and asking a number costs
/// nothing. A hang-up means nothing yet, but must not end us without a word.
#[derive(Default)]
struct Stops {
    count: AtomicU32,
    driver: Mutex<Option<Waker>>,
}

impl Stops {
    fn listen() -> std::io::Result<Arc<Stops>> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let stops = Arc::new(Stops::default());
        let heard = Arc::clone(&stops);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = terminate.recv() => {}
                    Some(()) = interrupt.recv() => {}
                    Some(()) = hang_up.recv() => continue,
                    else => return,
                }
                heard.count.fetch_add(1, Ordering::Release);
                if let Some(driver) = heard.driver.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    driver.wake();
                }
            }
        });
        Ok(stops)
    }

    /// Ready once for each signal; `seen` is how many the caller has had.
    fn poll(&self, seen: &mut u32, cx: &Context<'_>) -> Poll<()> {
        if self.count.load(Ordering::Acquire) == *seen {
            let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            if driver.is_none() {
                *driver = Some(cx.waker().clone());
            }
            // Both sides run on one thread, so nothing can have come in between.
            return Poll::Pending;
        }
        *seen += 1;
        Poll::Ready(())
    }
}

const NO_COMMAND: &str = "there is no command to run

  mendline run -- npx -y @modelcontextprotocol/server-everything

Everything after `--` is the server's command. `mendline run --help` says more.";

fn not_a_command(target: &str) -> String {
    if target.starts_with("http://") || target.starts_with("https://") {
        format!(
            "{target} is an address, and servers over HTTP are not built yet; only commands are:\n\n  mendline run -- COMMAND ARGUMENTS…"
        )
    } else {
        format!(
            "a command comes after `--`:\n\n  mendline run -- {target} …\n\nServers by name, from a configuration file, are not built yet."
        )
    }
}

fn log_level_or_default(given: Option<LogLevel>) -> Result<LogLevel, String> {
    if let Some(level) = given {
        return Ok(level);
    }
    match std::env::var(LOG_VARIABLE) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|error| format!("{LOG_VARIABLE}={text}: {error}")),
        _ => Ok(LogLevel::default()),
    }
}
