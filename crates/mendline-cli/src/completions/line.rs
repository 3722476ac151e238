//! A typed line, and whether the name of a server or of one of its tools is expected at its end, as an argument or as
//! the value of an option.
//!
//! All shells quote names of servers alike, so the line is parsed here and not in three shell languages. The parser
//! handles what completion needs: the last command of the line, its words, and the unfinished word. The command line
//! definition tells which options take a value.

use std::iter::Peekable;
use std::path::PathBuf;
use std::str::Chars;

use clap::{Arg, Command};

/// A position on a line at which a name is expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CursorPosition {
    /// The subcommand.
    pub(super) command: String,
    /// The server that was named before: the next word is one of its tools.
    pub(super) server: Option<String>,
    /// The option whose value is expected, without its dashes.
    pub(super) option: Option<String>,
    /// The configuration file that was named before.
    pub(super) config: Option<PathBuf>,
    /// True if configured servers that do not run are meant, too.
    pub(super) is_probe: bool,
}

impl CursorPosition {
    /// Finds the position at the end of this line, if it is that of a first or a second argument, or of a value.
    pub(super) fn find(line: &str, whole: &Command) -> Option<CursorPosition> {
        let words = words(line);
        let ours = words.iter().position(|word| word.rsplit('/').next() == Some("mendline"))?;
        let [command, before @ .., last] = &words[ours + 1..] else { return None };
        let known = whole.find_subcommand(command)?;
        let mut position =
            CursorPosition { command: command.clone(), server: None, option: None, config: None, is_probe: false };
        let mut before = before.iter();
        while let Some(word) = before.next() {
            if word == "--" {
                // A command follows.
                return None;
            }
            if !word.starts_with('-') {
                if position.server.replace(word.clone()).is_some() {
                    return None;
                }
                continue;
            }
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            position.is_probe |= flag == "--probe";
            if value.is_none() && !wants_value(flag, known) {
                continue;
            }
            let Some(value) = value.or_else(|| before.next().cloned()) else {
                position.option = Some(flag.trim_start_matches('-').to_owned());
                return Some(position);
            };
            if flag == "--config" {
                position.config = Some(at_home(&value));
            }
        }
        match last.strip_prefix("--").and_then(|last| last.split_once('=')) {
            Some((option, _)) => position.option = Some(option.to_owned()),
            None if last.starts_with('-') => return None,
            None => {}
        }
        Some(position)
    }
}

/// Returns whether the next word is the value of this flag.
fn wants_value(word: &str, command: &Command) -> bool {
    let takes = |argument: &&Arg| argument.get_action().takes_values();
    if let Some(long) = word.strip_prefix("--") {
        return command.get_opts().filter(takes).any(|argument| {
            argument.get_long() == Some(long)
                || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        });
    }
    // In a group of short flags, only the last one can have its value in the next word.
    let mut letters = word.chars().skip(1);
    let first = letters.find(|letter| command.get_opts().filter(takes).any(|it| it.get_short() == Some(*letter)));
    first.is_some() && letters.next().is_none()
}

/// Expands `~/` as the shell would.
fn at_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

/// Splits the last command of a line into words. The last word is unfinished and may be empty.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    // A word may be empty, if only an opening quote was typed.
    let mut word: Option<String> = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ';' | '&' | '|' | '(' | ')' | '\n' => (words, word) = (Vec::new(), None),
            letter if letter.is_whitespace() => words.extend(word.take()),
            '\'' => quoted(&mut letters, '\'', word.get_or_insert_default()),
            '"' => quoted(&mut letters, '"', word.get_or_insert_default()),
            '\\' => word.get_or_insert_default().extend(letters.next()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.push(word.unwrap_or_default());
    words
}

/// Reads up to the closing quote, or to the end.
fn quoted(letters: &mut Peekable<Chars<'_>>, quote: char, word: &mut String) {
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter == quote => return,
            '\\' if quote == '"' && letters.peek().is_some_and(|next| "\"\\$`".contains(*next)) => {
                word.extend(letters.next());
            }
            letter => word.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn find(line: &str) -> Option<CursorPosition> {
        CursorPosition::find(line, &Cli::command())
    }

    /// Returns the position of a first argument.
    fn position(line: &str) -> Option<CursorPosition> {
        find(line).filter(|position| position.server.is_none() && position.option.is_none())
    }

    #[test]
    fn line_is_split_like_a_shell_does() {
        for (line, expected) in [
            ("", vec![""]),
            ("mendline run ", vec!["mendline", "run", ""]),
            ("mendline  run my\\ no", vec!["mendline", "run", "my no"]),
            ("mendline run 'my no", vec!["mendline", "run", "my no"]),
            ("mendline run \"a \\\" b\\c", vec!["mendline", "run", "a \" b\\c"]),
            ("mendline run ''", vec!["mendline", "run", ""]),
            ("mendline run '' ", vec!["mendline", "run", "", ""]),
            ("cd x && mendline run a:b", vec!["mendline", "run", "a:b"]),
            ("a | (mendline run \\", vec!["mendline", "run", ""]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
    }

    #[test]
    fn server_name_is_expected_as_first_argument() {
        for line in [
            "mendline run ",
            "mendline run no",
            "A=1 ./target/mendline run 'no",
            "mendline call --json ",
            "mendline run --call-timeout 5s ",
            "mendline run --call-timeout=5s ",
            "mendline logs -f ",
            "mendline logs -n 3 ",
            "mendline logs -n3 ",
            "mendline logs -fn 3 ",
            "cd x; mendline reconnect ",
        ] {
            assert!(position(line).is_some(), "{line}");
        }
    }

    #[test]
    fn other_positions_expect_no_server_name() {
        for line in [
            "",
            "mendline",
            "mendline ",
            "mendline ru",
            "mendline run --",
            "mendline run --na",
            "mendline run -- ",
            "mendline run -- np",
            "mendline run notes ",
            "mendline call notes sea",
            "mendline call notes search @no",
            "mendline run --call-timeout ",
            "mendline run --config ",
            "mendline logs -n ",
            "mendline logs -fn ",
            "mendline nonsense ",
            "mendline run x; ls ",
            "other run ",
        ] {
            assert_eq!(position(line), None, "{line}");
        }
    }

    #[test]
    fn tool_name_is_expected_after_a_server() {
        for line in [
            "mendline call notes ",
            "mendline call --json notes sea",
            "mendline call notes --timeout 5s sea",
            "mendline tools --config x.json notes ",
        ] {
            assert_eq!(find(line).and_then(|position| position.server).as_deref(), Some("notes"), "{line}");
        }
        for line in ["mendline call notes search ", "mendline call notes -- ls "] {
            assert_eq!(find(line), None, "{line}");
        }
    }

    #[test]
    fn u09_value_of_an_option_is_expected_after_it() {
        for (line, option) in [
            ("mendline wrap --server ", "server"),
            ("mendline wrap --client cursor --server no", "server"),
            ("mendline wrap --server=no", "server"),
            ("mendline call notes --arg ", "arg"),
            ("mendline logs -n ", "n"),
        ] {
            assert_eq!(find(line).and_then(|position| position.option).as_deref(), Some(option), "{line}");
        }
    }

    #[test]
    fn earlier_options_determine_the_names() {
        let named = |line: &str| position(line).unwrap().config;
        assert_eq!(named("mendline run --config a\\ b.json "), Some(PathBuf::from("a b.json")));
        assert_eq!(named("mendline run --config=x.json no"), Some(PathBuf::from("x.json")));
        assert_eq!(named("mendline run "), None);
        assert!(
            position("mendline status --probe ").unwrap().is_probe && !position("mendline status ").unwrap().is_probe
        );
    }
}
