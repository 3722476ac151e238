//! The arguments of a wrapped entry, which `wrap` writes and `unwrap` reads.
//!
//! Everything that unwrapping needs is in these arguments or in the environment of the entry, so that no other state
//! and no backup is needed. The flags are those of `mendline run`; a flag that `wrap` does not write was added by the
//! user.

use std::cell::RefCell;

use clap::CommandFactory;

use super::policies::POLICY;
use super::secrets::shown_words;
use crate::bare_command;
use crate::cli::Cli;

/// The parsed arguments of a wrapped entry.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WrapArguments {
    /// Index of the server's command, if it is one.
    pub(crate) command: Option<usize>,
    /// Index of the URL, if it is an argument.
    pub(crate) url: Option<usize>,
    /// The variable that holds the URL.
    pub(crate) url_variable: Option<String>,
    /// The member that held the URL, if it was not the usual one.
    pub(crate) url_member: Option<String>,
    pub(crate) transport: Option<String>,
    pub(crate) headers: Vec<String>,
    /// Names of headers and the variables that hold their values.
    pub(crate) header_variables: Vec<(String, String)>,
    /// Members that the original entry did not have.
    pub(crate) without: Vec<String>,
    /// Policies.
    pub(crate) policies: Vec<String>,
    /// Flags of the login, which `wrap` writes for a bridge that it replaces.
    pub(crate) login: Vec<String>,
    /// Flags that `wrap` does not write, without secrets.
    pub(crate) foreign: Vec<String>,
}

/// The flag that names a member that the original entry did not have.
pub(crate) const WITHOUT: &str = "--entry-without";

/// The flag that names the member of the original entry that held the URL.
pub(crate) const ENTRY_URL: &str = "--entry-url";

/// The flag for an entry whose credential goes to another machine unencrypted. It has no value.
pub(crate) const ALLOW_HTTP: &str = "--allow-http";

/// The other flags that `wrap` writes. Each has a value.
const OURS: [&str; 8] = ["--name", "--transport", "--url-env", "--header", "--header-env", POLICY, WITHOUT, ENTRY_URL];

/// The flags of the login of a replaced bridge. Each has a value.
const LOGIN: [&str; 7] = [
    "--client-id",
    "--client-secret-env",
    "--scope",
    "--resource",
    "--callback-port",
    "--callback-host",
    "--callback-path",
];

/// The first argument.
pub(crate) const RUN: &str = "run";

impl WrapArguments {
    /// Parses the arguments of an entry that runs `mendline`; `None` if they are not those of `mendline run`.
    pub(crate) fn read(arguments: &[&str]) -> Option<WrapArguments> {
        if arguments.first() != Some(&RUN) {
            return None;
        }
        let mut words = WrapArguments::default();
        let bare = LINE.with_borrow(|line| bare_command::find(&arguments[1..], line.find_subcommand(RUN)?));
        let mut at = 1;
        while let Some(word) = arguments.get(at) {
            if *word == "--" {
                words.command = (at + 1 < arguments.len()).then_some(at + 1);
                break;
            }
            if bare == Some(at - 1) {
                words.command = Some(at);
                break;
            }
            if !word.starts_with('-') {
                words.url = Some(at);
                at += 1;
                continue;
            }
            let (flag, assigned) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (*word, None),
            };
            let takes_a_value = || OURS.contains(&flag) || takes_a_value(flag);
            let end = if assigned.is_none() && takes_a_value() { at + 2 } else { at + 1 };
            let end = end.min(arguments.len());
            let value = assigned.or(arguments[at + 1..end].first().copied());
            words.note(flag, value).unwrap_or_else(|| {
                words.foreign.push(shown_words(arguments[at..end].iter().copied()));
            });
            at = end;
        }
        Some(words)
    }

    /// Records a flag that `wrap` writes; `None` if it is another one.
    fn note(&mut self, flag: &str, value: Option<&str>) -> Option<()> {
        if flag == ALLOW_HTTP {
            return Some(());
        }
        let value = value?.to_owned();
        match flag {
            "--name" => {}
            "--transport" => self.transport = Some(value),
            "--url-env" => self.url_variable = Some(value),
            "--header" => self.headers.push(value),
            "--header-env" => {
                let (header, variable) = value.split_once('=')?;
                self.header_variables.push((header.to_owned(), variable.to_owned()));
            }
            flag if LOGIN.contains(&flag) => self.login.push(shown_words([flag, value.as_str()])),
            POLICY => self.policies.push(value),
            WITHOUT => self.without.push(value),
            ENTRY_URL => self.url_member = Some(value),
            _ => return None,
        }
        Some(())
    }

    /// Moves all positions, for arguments that follow others.
    pub(crate) fn moved_by(mut self, count: usize) -> WrapArguments {
        self.command = self.command.map(|at| at + count);
        self.url = self.url.map(|at| at + count);
        self
    }

    pub(crate) fn had_no(&self, member: &str) -> bool {
        self.without.iter().any(|other| other == member)
    }
}

thread_local! {
    /// The command line of this program. It is built once, because that takes longer than reading a file with it.
    static LINE: RefCell<clap::Command> = RefCell::new(Cli::command());
}

fn takes_a_value(flag: &str) -> bool {
    let Some(name) = flag.strip_prefix("--") else { return false };
    LINE.with_borrow(|line| {
        let run = line.find_subcommand(RUN);
        let argument = run.and_then(|run| run.get_arguments().find(|argument| argument.get_long() == Some(name)));
        argument.is_some_and(|argument| argument.get_action().takes_values())
    })
}

/// Returns whether `mendline` accepts these arguments.
pub(crate) fn are_accepted(arguments: &[String]) -> bool {
    let line = || std::iter::once("mendline").chain(arguments.iter().map(String::as_str));
    LINE.with_borrow_mut(|command| command.try_get_matches_from_mut(line()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_with_added_flags() {
        let words = WrapArguments::read(&[
            "run",
            "--name",
            "a",
            "--call-timeout",
            "2m",
            "--tell-client",
            "--",
            "npx",
            "--name",
        ]);
        let words = words.unwrap();
        assert_eq!((words.command, words.url), (Some(7), None));
        assert_eq!(words.foreign, ["--call-timeout 2m", "--tell-client"]);
        let words = WrapArguments::read(&[
            "run",
            "--header-env",
            "A=B",
            "--transport",
            "sse",
            "--entry-without",
            "env",
            "http://x",
        ]);
        let words = words.unwrap();
        assert_eq!((words.url, words.had_no("env"), words.had_no("args")), (Some(7), true, false));
        assert_eq!(words.header_variables, [("A".to_owned(), "B".to_owned())]);
        let words =
            WrapArguments::read(&["run", "--transport=sse", "--header-env=A=B", "--keep-alive=off", "http://x"])
                .unwrap();
        assert_eq!((words.transport.as_deref(), words.url), (Some("sse"), Some(4)));
        assert_eq!((words.header_variables[0].1.as_str(), words.foreign), ("B", vec!["--keep-alive=off".to_owned()]));
        let bare = WrapArguments::read(&["run", "--name", "a", "npx", "mcp-remote", "https://x.test/"]).unwrap();
        assert_eq!((bare.command, bare.url), (Some(3), None), "a command without a separator");
        assert_eq!(WrapArguments::read(&["serve"]), None);
        assert_eq!(WrapArguments::read(&["run", "--"]).unwrap().command, None);
        assert_eq!(WrapArguments::read(&["run", "--call-timeout"]).unwrap().foreign, ["--call-timeout"]);
    }
}
