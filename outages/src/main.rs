//! The outage matrix: every form of outage, of several durations, in every situation of a client, with the binary
//! `mendline`, real sockets and real processes.
//!
//! `cargo xtask outages` builds and starts it. Each [cell] has its own server, its own `mendline run`, its own ports and
//! its own folder; many cells run at once. [`play`] performs a cell and collects facts, [`judge`] compares the facts
//! with the promises, [`table`] prints the result. [`balancer`] puts haproxy and nginx before real servers.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints to the terminal")]

mod balancer;
mod cell;
mod client;
mod command_server;
mod form;
mod judge;
mod observed;
mod options;
mod play;
mod run;
mod site;
mod syn_counter;
mod table;

use std::path::Path;
use std::process::ExitCode;

use options::{Command, Options};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, folder] = arguments.as_slice()
        && word == command_server::WORD
    {
        return command_server::run(Path::new(folder));
    }
    let options = match Options::parse(&arguments) {
        Ok(Command::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Run(options)) => options,
        Err(why) => {
            eprintln!("error: {why}\n\n{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    match run::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
