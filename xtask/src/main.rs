//! The tasks of the workspace: `cargo xtask help` lists them.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints to the terminal")]

mod bench;
mod command;
mod compare;
mod conformance;
mod cuts;
mod defaults;
mod deny;
mod dist;
mod installation;
mod instructions;
mod links;
mod logins;
mod markdown;
mod matrix;
mod mutants;
mod outages;
mod peer_tests;
mod peers;
mod picture;
mod recipes;
mod sim;
mod site;
mod soak;
mod test;
mod tools;
mod words;
mod zoo;

use std::process::ExitCode;

const HELP: &str = "\
Tasks of the Mendline workspace.

Usage: cargo xtask <COMMAND> [OPTIONS]

Commands:
  test     runs everything that must pass before a change lands (installs what it needs into target/)
  peers    tests Mendline with the official SDKs as clients and servers; part of `test`
  conformance
           runs the conformance suite against a server, directly and through `mendline serve`; part of `test`
  logins   tests logins with authorization servers, Chromium, a keyring, sshd and the conformance suite; part of `test`
  recipes  runs the programs of docs/recipes.md against a server that is killed; part of `test`: --only NAME --write
  zoo      tests Mendline with published servers and client libraries: --only NAME --sample --write FILE
  sim      runs simulated worlds: --seeds N --from S
  soak     kills a server every twenty seconds for a long time: --minutes N, --logins, --gateway
  cuts     cuts in-memory conversations at single bytes: --all --conversation NAME --fault KIND --at N
  outages  runs the outage matrix with real processes: --form NAME --situation NAME --seconds N --only NAME --sample
           --balancers --jobs N --write FILE
  matrix   checks the tables of PROMISE.md and docs/regressions.md against the tests: --write
  words    checks all texts for words that docs/glossary.md replaces; part of `test`
  links    checks the relative links and anchors of all pages; part of `test`
  site     builds the site of the pages with mdBook into target/site/book, and checks its links
  picture  makes docs/demo.svg from a run of the demo
  defaults checks docs/defaults.md against the source of the defaults: --write
  deny     checks licences, sources and versions of dependencies against deny.toml: --advisories
  dist     makes the packages: --out DIR --sign KEY; --test installs and uses them; --crates; --notes
  mutants  checks that tests detect changes of the core: --shard K/N
  bench    measures speed and memory as ratios to minimal relays
  compare  compares the calls behind Mendline and other bridges when a server fails: --rounds N
  instructions
           counts the instructions of a healthy call in the core; part of `test`: --write
  help     prints this text
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_else(|| "help".into());
    let rest: Vec<String> = args.collect();
    let done = match command.as_str() {
        "test" => test::run(&rest),
        "peers" => peers::run(&rest),
        "conformance" => conformance::run(&rest),
        "logins" => logins::run(&rest),
        "recipes" => recipes::run(&rest),
        "zoo" => zoo::run(&rest),
        "sim" => sim::run(&rest),
        "soak" => soak::run(&rest),
        "cuts" => cuts::run(&rest),
        "outages" => outages::run(&rest),
        "matrix" => matrix::run(&rest),
        "words" => words::run(&rest),
        "links" => links::run(&rest),
        "site" => site::run(&rest),
        "picture" => picture::run(&rest),
        "defaults" => defaults::run(&rest),
        "deny" => deny::run(&rest),
        "dist" => dist::run(&rest),
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
