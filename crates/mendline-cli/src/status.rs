//! `mendline status`: every server of every running Mendline of this user, in one table or as JSON.
//!
//! - [`report`]: what is known, in the shape of `--json`;
//! - [`memory`]: what children take, which only this machine knows;
//! - [`table`]: rows and columns that fit the terminal; [`page`]: what a person reads, and [`detail`] of one server;
//! - [`probe`]: servers that are configured and do not run, tried.

mod detail;
pub(crate) mod memory;
mod page;
mod probe;
pub(crate) mod report;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mendline::control::Registry;
use mendline::control::words::Mood;

use crate::choices::duration;
use crate::cli::{NEGATIVE, UNKNOWN, USAGE};
use crate::ink::Ink;
use crate::output;
use crate::target::{Wanted, nothing_runs, unknown};
use crate::watch::{self, WatchOptions};
use page::Page;
use report::Report;

const EXAMPLES: &str = "\
Examples:
  mendline status                      everything that runs, in one table
  mendline status notes                one server, and an exit code that says how it is
  mendline status notes#4711           the one of this process, when several have the name
  mendline status --watch              a live screen: what happens, and keys to reconnect or isolate
  mendline status --probe              also the configured servers that do not run, tried
  mendline status --json | jq -r '.servers[] | select(.state.kind != \"ready\") | .id'

What does not answer within a second is shown as such.
Exit codes: 0 ok, 1 a server that was asked for by name is not well, 2 wrong usage or configuration,
3 nothing runs, or nothing of that name.";

/// What `mendline status` is asked.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusOptions {
    /// A server by its name, or by NAME#PID or PID [default: all of them]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    watch: WatchOptions,

    /// Print JSON, in a shape that stays; `--schema` describes it
    #[arg(long)]
    json: bool,

    /// Also try the servers of the configuration file that do not run: each is started or contacted and greeted
    #[arg(long)]
    probe: bool,

    /// The configuration file for --probe [default: $MENDLINE_CONFIG, else config.json in the user's configuration
    /// directory for mendline]
    #[arg(long, value_name = "FILE", requires = "probe")]
    config: Option<PathBuf>,

    /// How long --probe waits for servers
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s", requires = "probe")]
    within: Duration,

    /// Print the JSON Schema of what --json prints
    #[arg(long, exclusive = true)]
    schema: bool,
}

/// Shows how everything is.
pub(crate) fn run(options: &StatusOptions) -> ExitCode {
    if options.schema {
        print!("{}", report::SCHEMA);
        return ExitCode::SUCCESS;
    }
    if options.watch.is_wanted() {
        return watch::run(&options.watch, options.name.as_deref());
    }
    let registry = Registry::of_user();
    for distrusted in registry.distrusted() {
        eprintln!("warning: not looked into {distrusted}");
    }
    let mut report = Report::of(registry.snapshots());
    if options.probe {
        match probe::probe(options.config.as_deref(), options.name.as_deref(), options.within, &report) {
            Ok(probed) => report.probed = probed,
            Err(refusal) => {
                eprintln!("{}", refusal.words);
                return ExitCode::from(refusal.code);
            }
        }
    }
    match options.name.as_deref().map(Wanted::parse) {
        None => show(&report, options),
        Some(wanted) => {
            let names = report.names();
            report.keep(&wanted);
            if report.is_empty() && !options.json {
                eprintln!("{}", unknown(&wanted, &names));
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
    } else {
        print!("{}", Page::new(report, Ink::for_stdout(), page::width()));
    }
    if report.is_empty() {
        ExitCode::from(UNKNOWN)
    } else if options.name.is_some() && report.mood() > Mood::Well {
        ExitCode::from(NEGATIVE)
    } else {
        ExitCode::SUCCESS
    }
}
