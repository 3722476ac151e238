//! What `cargo xtask bench` measures with: a load generator, an upstream, a byte relay, and the comparison.
//!
//! They are one binary so that one build makes all of them, and they are as lean as we could write them, so that what
//! is measured is the program in the middle. `compare` runs them in turn and holds the figures against the targets;
//! `cargo xtask bench` only builds and calls it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing figures is what this program is for")]

mod compare;
mod load;
mod plan;
mod processes;
mod relay;
mod sample;
mod scan;
mod seats;
mod subject;
mod upstream;

use std::process::ExitCode;

const HELP: &str = "\
What `cargo xtask bench` measures with.

Usage: mendline-bench upstream
       mendline-bench relay -- CMD [ARGS…]
       mendline-bench load [OPTIONS] -- CMD [ARGS…]
       mendline-bench compare [OPTIONS]

Commands:
  upstream  a minimal MCP server on stdio, with the tools `echo` and `big`
  relay     starts CMD and copies bytes both ways: the least that a program in the middle can do
  load      starts CMD, calls it, and prints figures as one JSON object
  compare   direct, relay and mendline in turn: a table, ratios, targets

Options of load:
  --calls N       round trips measured one at a time            [5000]
  --warmup N      round trips before them that are not counted  [500]
  --in-flight N   calls kept in flight for the throughput       [32]
  --millis N      how long the throughput is measured           [2000]
  --big-calls N   calls with a result of 1 MiB                  [40]
  --starts N      starts measured up to the first answer        [20]
  --cores N       processors that everything runs on together   [2]

Options of compare:
  --rounds N       turns for each contender                     [5, quick: 3]
  --quick          less work in each turn
  --json           the report as JSON in place of the table
  --gate           fails when a target is missed
  --cores N        processors that everything runs on together  [2]
  --mendline PATH  the binary to be measured
  --out PATH       where the report is kept as JSON
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let done = match command.as_str() {
        "upstream" => upstream::serve().map_err(|error| error.to_string()).map(|()| ExitCode::SUCCESS),
        "relay" => plan::command_of(&rest).and_then(|command| relay::run(command).map_err(|error| error.to_string())),
        "load" => plan::Plan::try_new(&rest).and_then(|plan| load::run(&plan)).map(|figures| {
            println!("{figures}");
            ExitCode::SUCCESS
        }),
        "compare" => compare::run(&rest).map(|()| ExitCode::SUCCESS),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(format!("unknown command `{other}`; `mendline-bench help` lists them")),
    };
    done.unwrap_or_else(|why| {
        eprintln!("mendline-bench {command}: {why}");
        ExitCode::FAILURE
    })
}
