//! `cargo xtask soak`: a long run of the tests that kill a server every twenty seconds.
//!
//! The tests are in `tests/tests/soak.rs` and take two minutes as part of `cargo xtask test`. This task builds what
//! they need, sets their duration and shows their figures.

use crate::command::CommandLine;

const HELP: &str = "\
Usage: cargo xtask soak [--minutes N]

  --minutes N   the duration of the run [default: 10]
";

/// The variable that sets the duration of the tests.
const VARIABLE: &str = "MENDLINE_SOAK_MINUTES";

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
    CommandLine::cargo(&test).env(VARIABLE, minutes).run()
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
