//! `mendline report`: one file for a bug report, without secrets, shown before it is written.
//!
//! The parts are the output of other commands of this program ([`parts`]) and a list of the configured servers without
//! values ([`configuration`]). Each command hides secrets by itself; the whole passes through one more redactor, which
//! knows every value of every file that was found, and the names of the user and of the machine ([`anonymous`]).
//!
//! No server is started or contacted unless `--probe` asks for it: a report about a broken server must not break
//! another one.

mod anonymous;
mod configuration;
mod parts;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;

pub(crate) use self::anonymous::Anonymizer;
use self::parts::Part;
use crate::cli::{NEGATIVE, USAGE};
use crate::output;
use crate::untrusted_text::one_line;

/// Maximum size of a report, in bytes.
const LARGEST: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  mendline report                      everything; shown, then written here after a question
  mendline report notes                only one server; `cursor/notes` is the one of Cursor
  mendline report --out report.md --yes
  mendline report | less               only shown

The file holds: versions, the configured servers without values, the status, the errors of the last
week, the log of the last hour, and the findings of `mendline doctor --passive`. With --probe the
servers are started or contacted, as `mendline doctor` does. Secrets, the home directory and the
names of the user and the machine are replaced. Read it before you send it.
Exit codes: 0 ok, 1 not written, 2 wrong usage, 3 no server of that name.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportOptions {
    /// Server by its name [default: everything]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// File to write; an existing one is not replaced [default: mendline-report-TIME.md on a terminal, else stdout]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,

    /// Also start or contact the servers, as `mendline doctor` does
    #[arg(long)]
    probe: bool,
}

/// Runs `mendline report`.
pub(crate) fn run(options: &ReportOptions) -> ExitCode {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let target = match (&options.out, io::stdout().is_terminal()) {
        (Some(path), _) => Some(path.clone()),
        (None, true) => Some(PathBuf::from(file_name(SystemTime::now()))),
        (None, false) => None,
    };
    if let Some(path) = &target {
        if path.symlink_metadata().is_ok() {
            let path = one_line(&path.display().to_string());
            return complain(&format!("cannot write {path}: it exists already; choose another name with --out"));
        }
        if !options.yes && !is_terminal {
            return complain("there is no terminal for the confirmation; nothing was written. Use --yes to write it");
        }
    }
    if let Some(refusal) = options.name.as_deref().and_then(configuration::unknown) {
        eprintln!("{}", refusal.words);
        return ExitCode::from(refusal.code);
    }
    let report = compose(options);
    let Some(path) = target else {
        output::data(report.as_bytes());
        return ExitCode::SUCCESS;
    };
    if options.yes {
        print_contents(&report);
    } else {
        print!("{report}");
        print!("\nWrite this to {}? [y/N] ", one_line(&path.display().to_string()));
        if !is_agreed() {
            println!("Nothing was written.");
            return ExitCode::from(NEGATIVE);
        }
    }
    write(&path, &report)
}

fn complain(complaint: &str) -> ExitCode {
    eprintln!("error: {complaint}");
    ExitCode::from(USAGE)
}

fn is_agreed() -> bool {
    if output::has_failed() {
        // A question that the operator cannot see is not confirmed.
        return false;
    }
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Prints the headings of a report, each with the size of its part.
fn print_contents(report: &str) {
    println!("The report holds:");
    for part in report.split("\n## ").skip(1) {
        let (title, rest) = part.split_once('\n').unwrap_or((part, ""));
        println!("  {title} ({} lines)", rest.lines().count());
    }
}

fn write(path: &Path, report: &str) -> ExitCode {
    let shown = one_line(&path.display().to_string());
    let written = std::fs::File::create_new(path).and_then(|mut file| file.write_all(report.as_bytes()));
    match written.and_then(|()| mendline::os::files::make_private(path)) {
        Ok(()) => {
            println!("{shown}: written, {} KiB. Read it before you send it.", report.len().div_ceil(1024));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: cannot write {shown}: {error}; choose another place with --out");
            ExitCode::from(NEGATIVE)
        }
    }
}

/// Returns what hides the secrets of all configured servers, and what identifies the user.
pub(crate) fn anonymizer() -> Anonymizer {
    Anonymizer::new(&configuration::collect())
}

/// Collects all parts, and hides what identifies the user.
fn compose(options: &ReportOptions) -> String {
    let name = options.name.as_deref();
    let servers = configuration::collect();
    let anonymizer = Anonymizer::new(&servers);
    let parts = [
        vec![Part::done("Versions", configuration::versions()), Part::done("Servers", servers.listed(name))],
        parts::of_commands(name, options.probe),
    ]
    .concat();
    let mut report = String::from("# Mendline report\n");
    for part in parts {
        let text = part.kept(&anonymizer.anonymous(&part.text));
        let section = format!("\n## {}\n{}\n", part.title, fenced(&text));
        let room = LARGEST.saturating_sub(report.len());
        report +=
            if section.len() <= room { &section } else { "\n(A part is left out: the report would be too large.)\n" };
    }
    report
}

/// Puts a text between fences that do not occur in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|sign| sign != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

/// Returns the name of a file for a report at this time.
fn file_name(time: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(time).to_string();
    format!("mendline-report-{}.md", time.trim_end_matches('Z').replace(':', "-"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fence_is_longer_than_any_in_the_text() {
        assert_eq!(fenced("a\n"), "```text\na\n```");
        assert_eq!(fenced("a ```` b"), "`````text\na ```` b\n`````");
    }

    #[test]
    fn default_name_has_the_time() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_763_373_600);
        assert_eq!(file_name(time), "mendline-report-2025-11-17T10-00-00.md");
    }
}
