//! `mendline run npx foo`: a command without `--` before it.
//!
//! The `--` is easily forgotten, and some clients remove it from the arguments of an entry. The name of a configured
//! server has nothing but flags of `mendline run` after it, so a name that other words follow can only be a command.
//! Everything from that name on belongs to the command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Command, CommandFactory, Parser};
use mendline::os::files;

use crate::cli::{self, Cli};
use crate::named::{locate, read};

/// The subcommand.
const RUN: &str = "run";

/// The separator before a command.
pub(crate) const SEPARATOR: &str = "--";

/// Parses a command line that clap has rejected again, as one that runs a command; `None` if it does not run one.
pub(crate) fn parse(line: &[OsString], rejected: &clap::Error) -> Option<Result<Cli, clap::Error>> {
    let [_, verb, words @ ..] = line else { return None };
    if verb != RUN || rejected.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let whole = Cli::command();
    let at = find(words, whole.find_subcommand(RUN)?)?;
    let configured_in = configured_in(&words[at]);
    let is_mistyped = configured_in.is_some() || rejected.get(ContextKind::SuggestedArg).is_some();
    if is_mistyped && !is_program(&words[at]) {
        return None;
    }
    let mut line = line.to_vec();
    line.insert(2 + at, SEPARATOR.into());
    let parsed = Cli::try_parse_from(line).map(|mut cli| {
        if let cli::Command::Run(options) = &mut cli.command {
            options.also_configured_in = configured_in;
        }
        cli
    });
    Some(parsed)
}

/// Returns the index of the program in the words after `run`, if they hold a command without a separator.
pub(crate) fn find(words: &[impl AsRef<OsStr>], run: &Command) -> Option<usize> {
    let mut program = None;
    let mut at = 0;
    while let Some(word) = words.get(at).map(|word| word.as_ref().to_string_lossy()) {
        if word == SEPARATOR {
            return None;
        }
        match (flag(&word, run), program) {
            (Word::Flag { takes_next }, _) => at += usize::from(takes_next),
            // A URL takes no arguments.
            (Word::Plain, None) if word.contains("://") || word.contains("${") => return None,
            (Word::Plain, None) => program = Some(at),
            (Word::Unknown, None) => return None,
            (Word::Plain | Word::Unknown, Some(program)) => return Some(program),
        }
        at += 1;
    }
    None
}

/// A word of a command line.
enum Word {
    /// A flag of `mendline run`.
    Flag {
        /// The next word is its value.
        takes_next: bool,
    },
    /// Another flag.
    Unknown,
    /// No flag.
    Plain,
}

fn flag(word: &str, run: &Command) -> Word {
    if !word.starts_with('-') || word == "-" {
        return Word::Plain;
    }
    if matches!(word, "--help" | "-h") {
        return Word::Flag { takes_next: false };
    }
    let (name, has_value) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
    let is_it = |argument: &&Arg| {
        let is_alias = |long: &str| argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&long));
        name.strip_prefix("--").is_some_and(|long| argument.get_long() == Some(long) || is_alias(long))
    };
    match run.get_arguments().find(is_it) {
        Some(argument) => Word::Flag { takes_next: argument.get_action().takes_values() && !has_value },
        None => Word::Unknown,
    }
}

/// Returns the configuration file that has a server with this name.
fn configured_in(name: &OsStr) -> Option<PathBuf> {
    let found = locate(None).ok()?;
    let loaded = read(&found).ok()?;
    loaded.names.iter().any(|known| name == OsStr::new(known)).then_some(found.path)
}

/// Returns whether a shell would find a program of this name.
fn is_program(name: &OsStr) -> bool {
    let is_executable = |path: &Path| path.metadata().is_ok_and(|found| files::is_program(&found));
    if name.to_string_lossy().contains('/') {
        return is_executable(Path::new(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<String> {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let whole = Cli::command();
        find(&words, whole.find_subcommand(RUN).unwrap()).map(|at| words[at..].join(" "))
    }

    #[test]
    fn u09_name_with_words_after_it_is_a_command() {
        for (line, command) in [
            ("npx foo", "npx foo"),
            ("npx -y foo", "npx -y foo"),
            ("--name a --call-timeout=5s npx -y foo --db x", "npx -y foo --db x"),
            ("uvx --name x notes", "uvx --name x notes"),
            ("./server --port 80", "./server --port 80"),
            ("npx mcp-remote https://mcp.example.com/mcp", "npx mcp-remote https://mcp.example.com/mcp"),
            ("npx foo -- bar", "npx foo -- bar"),
            ("cat -", "cat -"),
        ] {
            assert_eq!(found(line).as_deref(), Some(command), "{line}");
        }
    }

    #[test]
    fn u09_other_lines_hold_no_bare_command() {
        for line in [
            "",
            "notes",
            "notes --config x.json",
            "notes --call-timeout 5s --no-breaker",
            "--name notes",
            "https://mcp.example.com/mcp foo",
            "${URL} foo",
            "-- npx foo",
            "notes -- npx foo",
            "--unknown npx foo",
            "npx --help",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
