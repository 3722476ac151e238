//! `cargo xtask soak`: the long form of the tests in which a server is killed every twenty seconds.
//!
//! The tests themselves are in `tests/tests/soak.rs` and take two minutes as a part of `cargo xtask test`. This builds what
//! they need, tells them how long to go on, and shows their figures.

use crate::command::CommandLine;

const HELP: &str = "\
Usage: cargo xtask soak [--minutes N]

  --minutes N   how long the server is killed every twenty seconds [default: 10]
";

/// What the tests look for.
const VARIABLE: &str = "MENDLINE_SOAK_MINUTES";

/// Runs the soak to its end.
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
        return Err(format!("--minutes is a whole number from 1, not {minutes:?}"));
    }
    CommandLine::cargo(&["build", "--workspace", "--bins"]).run()?;
    let test = ["test", "--package", "mendline-peers", "--test", "soak", "--", "--nocapture"];
    CommandLine::cargo(&test).env(VARIABLE, minutes).run()
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn a_time_that_is_none_is_refused_before_anything_is_built() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(run(&words(&["--minutes", "0"])).is_err());
        assert!(run(&words(&["--minutes", "soon"])).is_err());
        assert!(run(&words(&["--hours", "1"])).is_err());
    }
}
