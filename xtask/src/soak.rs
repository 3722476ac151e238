//! `cargo xtask soak`: long runs of tests that are short as part of `cargo xtask test`.
//!
//! The tests in `tests/tests/soak.rs` kill a server every twenty seconds; they take two minutes there, and as long as
//! the option says here. One test in `tests/tests/login.rs` lets a token expire that eight processes share; fifty times
//! there, a thousand times here. This task builds what they need and shows their figures.

use crate::command::CommandLine;

const HELP: &str = "\
Usage: cargo xtask soak [--minutes N]

  --minutes N   the duration of the run [default: 10]
";

/// The variable that sets the duration of the tests.
const VARIABLE: &str = "MENDLINE_SOAK_MINUTES";
/// The variable that sets the number of expiries.
const EXPIRIES: &str = "MENDLINE_SOAK_EXPIRIES";

/// Runs the soak test.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let minutes = match args {
        [] => "10",
        [option, number] if option == "--minutes" => number,
        [only] if only == "--help" || only == "-h" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown options\n{HELP}")),
    };
    if !minutes.parse::<u32>().is_ok_and(|minutes| minutes > 0) {
        return Err(format!("--minutes must be a whole number from 1, not {minutes:?}"));
    }
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let test = ["test", "--package", "mendline-peers", "--test", "soak", "--", "--nocapture"];
    CommandLine::cargo(&test).env(VARIABLE, minutes).run()?;
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
        assert!(run(&args(&["--minutes", "soon"])).is_err());
        assert!(run(&args(&["--hours", "1"])).is_err());
    }
}
