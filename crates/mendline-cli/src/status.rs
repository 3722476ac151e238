//! `mendline status`: every server of every running Mendline of this user, in one table or as JSON.
//!
//! - [`report`]: the data, in the format of `--json`;
//! - [`logins`]: the stored logins;
//! - [`memory`]: the memory of children, measured on this machine;
//! - [`table`]: a table that fits the terminal, with [`names`] that stay different; [`page`]: the text output, and [`detail`] of one server;
//! - [`probe`]: probes of configured servers that do not run.

mod detail;
pub(crate) mod logins;
pub(crate) mod memory;
pub(crate) mod names;
mod page;
mod probe;
pub(crate) mod report;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mendline::control::Registry;
use mendline::control::words::Severity;

use crate::cli::{NEGATIVE, UNKNOWN, USAGE};
use crate::output;
use crate::policy_flags::duration;
use crate::style::Style;
use crate::target::{nothing_runs, unknown};
use crate::untrusted_text::one_line;
use crate::watch::{self, WatchOptions};
use page::Page;
use report::Report;

const EXAMPLES: &str = "\
Examples:
  mendline status                      everything that runs, in one table
  mendline status notes                one server, with an exit code for its state
  mendline status notes#4711           the server of this process, if several have the name
  mendline status --watch              a live screen with events, and keys to reconnect or isolate
  mendline status --probe              also probe the configured servers that do not run
  mendline status --json | jq -r '.servers[] | select(.state.kind != \"ready\") | .id'

A process that does not answer within a second is shown as such.
Exit codes: 0 ok, 1 the named server is unhealthy, 2 wrong usage or configuration,
3 nothing runs, or nothing of that name.";

/// Options of `mendline status`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusOptions {
    /// Server by its name, or by NAME#PID or PID [default: all of them]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    watch: WatchOptions,

    /// Print JSON in a stable format; `--schema` describes it
    #[arg(long)]
    json: bool,

    /// Also probe the configured servers that do not run: each is started or contacted for a handshake
    #[arg(long)]
    probe: bool,

    /// Configuration file for --probe [default: $MENDLINE_CONFIG, else config.json in the user's configuration
    /// directory for mendline]
    #[arg(long, value_name = "FILE", requires = "probe")]
    config: Option<PathBuf>,

    /// Time limit of --probe
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s", requires = "probe")]
    within: Duration,

    /// Print the JSON Schema of what --json prints
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Runs `mendline status`.
pub(crate) fn run(options: &StatusOptions) -> ExitCode {
    if options.schema {
        print!("{}", report::SCHEMA);
        return ExitCode::SUCCESS;
    }
    if options.watch.is_wanted() {
        return watch::run(&options.watch, options.name.as_deref());
    }
    let registry = Registry::of_user();
    for distrusted in registry.untrusted_directories() {
        eprintln!("warning: skipped {distrusted}");
    }
    let mut report = Report::of(registry.snapshots());
    for trouble in logins::troubles() {
        eprintln!("warning: {}", one_line(&trouble));
    }
    match logins::stored() {
        Ok(logins) => report.add_logins(logins),
        Err(why) => eprintln!("warning: {}", one_line(&why)),
    }
    if options.probe {
        match probe::probe(options.config.as_deref(), options.name.as_deref(), options.within, &report) {
            Ok(probed) => report.probed = probed,
            Err(refusal) => {
                eprintln!("{}", refusal.words);
                return ExitCode::from(refusal.code);
            }
        }
    }
    match options.name.as_deref() {
        None => show(&report, options),
        Some(name) => {
            let names = report.names();
            let wanted = crate::names::selector(name, |wanted| report.has(wanted));
            report.keep(&wanted);
            if report.is_empty() && !options.json {
                let words = crate::names::does_not_run(name);
                eprintln!("{}", words.unwrap_or_else(|| unknown(&wanted, &names)));
                return ExitCode::from(UNKNOWN);
            }
            show(&report, options)
        }
    }
}

fn show(report: &Report, options: &StatusOptions) -> ExitCode {
    if options.json {
        match serde_json::to_string_pretty(report) {
            Ok(json) => output::json(&json),
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(USAGE);
            }
        }
    } else if report.is_empty() {
        println!("{}", nothing_runs());
        let mut lines = String::new();
        // Writing to a string does not fail.
        let _ = page::logins(report, Style::for_stdout(), page::width(), &mut lines);
        if !lines.is_empty() {
            print!("\n{lines}");
        }
    } else {
        print!("{}", Page::new(report, Style::for_stdout(), page::width()));
        let is_shown = |name: &str| report.servers.iter().any(|row| row.server.name == name);
        if let Some(line) = crate::stats::summary(is_shown) {
            println!("{}", Style::for_stdout().faint(&line));
        }
    }
    if report.is_empty() {
        ExitCode::from(UNKNOWN)
    } else if options.name.is_some() && report.severity() > Severity::Healthy {
        ExitCode::from(NEGATIVE)
    } else {
        ExitCode::SUCCESS
    }
}
