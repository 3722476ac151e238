//! `cargo xtask soak`: long runs of tests that are short as part of `cargo xtask test`.
//!
//! The tests in `tests/tests/soak.rs` kill a server every twenty seconds; they take two minutes there, and as long as
//! the option says here. One test in `tests/tests/login` lets a token expire that eight processes share; fifty times
//! there, a thousand times here. One in `tests/tests/gateway.rs` kills the gateway under clients: four times there, every
//! thirty seconds here. One in `crates/mendline-cli/tests/serve` lets clients come and never leave: a hundred there,
//! thousands here. This task builds what they need and shows their figures.

use crate::command::CommandLine;

const HELP: &str = "\
Usage: cargo xtask soak [--minutes N] [--logins | --gateway]

  --minutes N   the duration of the run with kills [default: 10]
  --gateway     only gateways: one with clients that never leave, and one that is killed every thirty seconds under
                fifty clients
  --logins      only the login that eight processes share for a thousand expiries
";

/// The variable that sets the duration of the tests.
const VARIABLE: &str = "MENDLINE_SOAK_MINUTES";
/// The variable that sets the number of expiries.
const EXPIRIES: &str = "MENDLINE_SOAK_EXPIRIES";
/// The variables that set the number of kills of the gateway and the seconds between them.
const KILLS: (&str, &str) = ("MENDLINE_GATEWAY_KILLS", "MENDLINE_GATEWAY_SECONDS");

/// The variable that sets the number of clients that never send DELETE.
const CLIENTS: &str = "MENDLINE_GATEWAY_CLIENTS";

/// The tests of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tests {
    All,
    Logins,
    Gateway,
}

/// Runs the soak test.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut minutes, mut tests) = ("10", Tests::All);
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--minutes" => minutes = args.next().ok_or("--minutes needs a number")?,
            "--logins" => tests = Tests::Logins,
            "--gateway" => tests = Tests::Gateway,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    let Some(count) = minutes.parse::<u32>().ok().filter(|minutes| *minutes > 0) else {
        return Err(format!("--minutes must be a whole number from 1, not {minutes:?}"));
    };
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    if tests == Tests::Gateway {
        let stay = "clients_that_never_leave_take_bounded_processes_and_memory";
        let test = ["test", "--package", "mendline-cli", "--test", "serve", "--", "--nocapture", stay];
        CommandLine::cargo(&test).env(CLIENTS, &(500 * count).to_string()).run()?;
        let killed = "x91_killed_gateway_loses_no_session_and_repeats_no_write";
        let test = ["test", "--package", "mendline-peers", "--test", "gateway", "--", "--nocapture", killed];
        return CommandLine::cargo(&test).env(KILLS.0, &(2 * count).to_string()).env(KILLS.1, "30").run();
    }
    if tests == Tests::All {
        let test = ["test", "--package", "mendline-peers", "--test", "soak", "--", "--nocapture"];
        CommandLine::cargo(&test).env(VARIABLE, minutes).run()?;
    }
    let shared = "eight_processes_share_a_rotating_refresh_token";
    let test = ["test", "--package", "mendline-peers", "--test", "login", "--", "--nocapture", shared];
    CommandLine::cargo(&test).env(EXPIRIES, "1000").run()
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn invalid_duration_is_refused_before_the_build() {
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        assert!(run(&args(&["--minutes", "0"])).is_err());
        assert!(run(&args(&["--logins", "--minutes", "soon"])).is_err());
        assert!(run(&args(&["--minutes"])).is_err());
        assert!(run(&args(&["--hours", "1"])).is_err());
    }
}
