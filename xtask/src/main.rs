//! The tasks of the workspace: `cargo xtask help` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to whoever runs it")]

mod bench;
mod command;
mod compare;
mod cuts;
mod defaults;
mod deny;
mod installation;
mod instructions;
mod matrix;
mod mutants;
mod peers;
mod sim;
mod soak;
mod test;
mod tools;

use std::process::ExitCode;

const HELP: &str = "\
Chores of the Mendline workspace.

Usage: cargo xtask <COMMAND> [OPTIONS]

Commands:
  test     everything that must pass before a change lands (installs what it needs into target/)
  peers    the real SDKs in front of and behind Mendline; part of `test`
  sim      simulated worlds: --seeds N --from S
  soak     a server that is killed every twenty seconds, for long: --minutes N
  cuts     conversations over cables in memory, cut at single bytes: --all --conversation NAME --fault KIND --at N
  matrix   the tables of PROMISE.md and docs/regressions.md against the tests, both ways: --write
  defaults docs/defaults.md against the one file of defaults: --write
  deny     licences, sources and versions of dependencies against deny.toml: --advisories
  mutants  changes decisions of the core and looks whether a test notices: --shard K/N
  bench    speed and memory as ratios against minimal relays, measured in one run
  compare  what becomes of calls behind Mendline and behind other bridges when a server breaks: --rounds N
  instructions
           what a healthy call costs in the core, counted, against what is recorded; part of `test`: --write
  help     this text
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_else(|| "help".into());
    let rest: Vec<String> = args.collect();
    let done = match command.as_str() {
        "test" => test::run(&rest),
        "peers" => peers::run(&rest),
        "sim" => sim::run(&rest),
        "soak" => soak::run(&rest),
        "cuts" => cuts::run(&rest),
        "matrix" => matrix::run(&rest),
        "defaults" => defaults::run(&rest),
        "deny" => deny::run(&rest),
        "mutants" => mutants::run(&rest),
        "bench" => bench::run(&rest),
        "compare" => compare::run(&rest),
        "instructions" => instructions::run(&rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown command `{other}`; `cargo xtask help` lists them")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
