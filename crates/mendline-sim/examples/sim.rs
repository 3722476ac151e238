//! The simulation without xtask: `cargo run -p mendline-sim --example sim -- --seeds 1000`.
#![allow(clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match mendline_sim::cli::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
