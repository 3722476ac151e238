//! `cargo xtask soak`: long runs of tests that are short as part of `cargo xtask test`.
//!
//! The tests in `tests/tests/soak.rs` kill a server every twenty seconds; they take two minutes there, and as long as
//! the option says here. One test in `tests/tests/login` lets a token expire that eight processes share; fifty times
//! there, a thousand times here. This task builds what they need and shows their figures.

use crate::command::CommandLine;

const HELP: &str = "\
Usage: cargo xtask soak [--minutes N] [--logins]

  --minutes N   the duration of the run with kills [default: 10]
  --logins      only the login that eight processes share for a thousand expiries
";

/// The variable that sets the duration of the tests.
const VARIABLE: &str = "MENDLINE_SOAK_MINUTES";
/// The variable that sets the number of expiries.
const EXPIRIES: &str = "MENDLINE_SOAK_EXPIRIES";

/// Runs the soak test.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut minutes, mut only_logins) = ("10", false);
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--minutes" => minutes = args.next().ok_or("--minutes needs a number")?,
            "--logins" => only_logins = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    if !minutes.parse::<u32>().is_ok_and(|minutes| minutes > 0) {
        return Err(format!("--minutes must be a whole number from 1, not {minutes:?}"));
    }
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    if !only_logins {
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
