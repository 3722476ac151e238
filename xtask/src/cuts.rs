//! `cargo xtask cuts`: cuts every conversation at every byte. It runs the test target `cuts` of `mendline`, which reads
//! its options from the environment.

use crate::command::CommandLine;

const HELP: &str = "\
Cuts in-memory conversations at single bytes and checks every promise after each cut.

Usage: cargo xtask cuts [OPTIONS]

Options:
  --all                cuts at every byte; otherwise as in the tests: all of short conversations, a sample of long ones
  --conversation NAME  only this one; for an unknown name, all names are printed. A name begins with the transport and
                       ends with the form of the answers or with the event
  --fault KIND         only this one: cut-up, cut-down, end-up, end-down, stall-up, stall-down, write-error, drip
  --at N               only at this byte; with a conversation and a fault, the full log is printed
";

/// Runs the selected cuts.
pub fn run(args: &[String]) -> Result<(), String> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Ok(());
    }
    let mut line = CommandLine::cargo(&[
        "test",
        "--quiet",
        "--package",
        "mendline",
        "--test",
        "cuts",
        "--",
        "--ignored",
        "--exact",
        "by_hand",
        "--nocapture",
    ]);
    // Loading the system's certificate authorities takes longer than a conversation, and none of them is needed.
    line = line.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nowhere");
    for (name, value) in variables(args)? {
        line = line.env(name, &value);
    }
    line.run()
}

/// Converts options to environment variables of the test.
fn variables(args: &[String]) -> Result<Vec<(&'static str, String)>, String> {
    let mut variables = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let name = match arg.as_str() {
            "--all" => {
                variables.push(("MENDLINE_CUTS_ALL", "1".to_owned()));
                continue;
            }
            "--conversation" => "MENDLINE_CUTS_CONVERSATION",
            "--fault" => "MENDLINE_CUTS_FAULT",
            "--at" => "MENDLINE_CUTS_AT",
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        };
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        if arg == "--at" && value.parse::<usize>().is_err() {
            return Err(format!("--at must be the number of a byte, not `{value}`"));
        }
        variables.push((name, value.clone()));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::variables;

    fn parsed(line: &str) -> Result<Vec<(&'static str, String)>, String> {
        variables(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_a_reported_violation_become_variables() {
        let expected = [
            ("MENDLINE_CUTS_CONVERSATION", "stdio".to_owned()),
            ("MENDLINE_CUTS_FAULT", "cut-up".to_owned()),
            ("MENDLINE_CUTS_AT", "31".to_owned()),
        ];
        assert_eq!(parsed("--conversation stdio --fault cut-up --at 31"), Ok(expected.to_vec()));
    }

    #[test]
    fn invalid_options_are_refused() {
        for line in ["--at", "--at soon", "--byte 3"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
