//! `mendline demo-server`: an MCP server on stdio or at a URL, with faults on demand.
//!
//! On stdio it supports both eras (initialize and server/discover), at a URL the legacy era. It has a tool for each
//! kind of effect: `lookup` reads, `create_note` writes, `slow` reports progress, `big` returns a long answer.
//! [`faults`] are its faults. [`ledger`] records what it really did, so that a test or the demo can compare that with
//! the answers of a client. It uses threads and blocking reads, unlike the code under test.

pub(crate) mod faults;
mod http;
mod ledger;
mod server;
mod tools;

use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use faults::{ServerFault, ServerFaults};
use ledger::Ledger;
pub(crate) use ledger::VARIABLE as LEDGER;
use server::Server;

use crate::cli::USAGE;

#[derive(Args)]
pub(crate) struct DemoServerOptions {
    /// Fault to inject, as NAME or NAME=VALUE; may be repeated
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<ServerFault>,

    /// Serve HTTP on this loopback port; 0: any free port
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "0")]
    http: Option<u16>,
}

/// Lifetime of a server that ignores its shutdown: a bound for failing tests.
const LONGEST_LIFE: Duration = Duration::from_secs(120);

/// Runs the server until its stdin ends, or as its faults demand.
pub(crate) fn run(options: &DemoServerOptions) -> ExitCode {
    let faults = ServerFaults::new(&options.faults);
    if !faults.are_available(options.http.is_some()) {
        eprintln!(
            "error: this fault is not available for a server {}",
            if options.http.is_some() { "at a URL" } else { "on stdio" }
        );
        return ExitCode::from(USAGE);
    }
    let ledger = Ledger::with_environment();
    if faults.has(&ServerFault::IgnoreTerm) || faults.has(&ServerFault::Linger) {
        mendline::transport::ignore_termination_signals();
    }
    if faults.has(&ServerFault::Linger) {
        ledger.note("grandchild");
        sleep(LONGEST_LIFE);
        return ExitCode::SUCCESS;
    }
    ledger.note("start");
    if let Some(code) = faults.exit_at_once() {
        eprintln!("demo-server: cannot start, giving up");
        return ExitCode::from(code);
    }
    if faults.has(&ServerFault::Grandchild)
        && let Err(error) = start_grandchild()
    {
        eprintln!("demo-server: no grandchild: {error}");
    }
    sleep(faults.slow_start());
    if let Some(path) = faults.waits_for() {
        wait_for(path);
    }
    ledger.note("serves");
    if let Some(port) = options.http {
        return match http::serve(port, faults, ledger) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("demo-server: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let ignores_eof = faults.has(&ServerFault::IgnoreEof);
    Server::new(faults, ledger).serve();
    if ignores_eof {
        sleep(LONGEST_LIFE);
    }
    ExitCode::SUCCESS
}

/// Waits until this file exists.
fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() && begun.elapsed() < LONGEST_LIFE {
        sleep(Duration::from_millis(5));
    }
}

/// Starts a process of the same group that holds our pipes and ignores the shutdown.
fn start_grandchild() -> std::io::Result<()> {
    std::process::Command::new(std::env::current_exe()?).args(["demo-server", "--fault", "linger"]).spawn().map(drop)
}
