//! The arguments of a wrapped entry: what `wrap` writes and `unwrap` reads.
//!
//! They are the whole memory of wrapping. Whatever is needed to bring an entry back is told by them or stands in the entry's
//! environment, so that no state and no backup is needed. The flags are those of `mendline run`; what a person added to them
//! by hand is recognised by its not being among the few that are written here.

use clap::CommandFactory;

use crate::cli::Cli;

/// What the words of a wrapped entry say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// Where the server's command stands, if it is one.
    pub(crate) command: Option<usize>,
    /// Where the URL stands, if it is among the words.
    pub(crate) url: Option<usize>,
    /// The variable that holds the URL.
    pub(crate) url_variable: Option<String>,
    pub(crate) transport: Option<String>,
    pub(crate) headers: Vec<String>,
    /// Names of headers and the variables that hold their values.
    pub(crate) header_variables: Vec<(String, String)>,
    /// Members that the entry did not have before.
    pub(crate) without: Vec<String>,
    /// Flags that `wrap` does not write.
    pub(crate) foreign: Vec<String>,
}

/// The flag that says which member an entry did not have.
pub(crate) const WITHOUT: &str = "--entry-without";

/// The first word of all.
pub(crate) const RUN: &str = "run";

impl Words {
    /// Reads the arguments of an entry that runs `mendline`; none if they are not those of `mendline run`.
    pub(crate) fn read(arguments: &[&str]) -> Option<Words> {
        if arguments.first() != Some(&RUN) {
            return None;
        }
        let mut words = Words::default();
        let mut at = 1;
        while let Some(word) = arguments.get(at) {
            let value = || arguments.get(at + 1).map(|value| (*value).to_owned());
            let mut width = 2;
            match *word {
                "--" => {
                    words.command = (at + 1 < arguments.len()).then_some(at + 1);
                    break;
                }
                "--name" => {}
                "--transport" => words.transport = value(),
                "--url-env" => words.url_variable = value(),
                "--header" => words.headers.extend(value()),
                "--header-env" => {
                    let value = value()?;
                    let (header, variable) = value.split_once('=')?;
                    words.header_variables.push((header.to_owned(), variable.to_owned()));
                }
                WITHOUT => words.without.extend(value()),
                flag if flag.starts_with('-') => {
                    width = if takes_a_value(flag) { 2 } else { 1 };
                    let end = arguments.len().min(at + width);
                    words.foreign.push(arguments[at..end].join(" "));
                }
                _ => {
                    words.url = Some(at);
                    width = 1;
                }
            }
            at += width;
        }
        Some(words)
    }

    pub(crate) fn had_no(&self, member: &str) -> bool {
        self.without.iter().any(|other| other == member)
    }
}

fn takes_a_value(flag: &str) -> bool {
    let (Some(name), command) = (flag.strip_prefix("--"), Cli::command()) else { return false };
    let run = command.find_subcommand(RUN);
    let argument = run.and_then(|run| run.get_arguments().find(|argument| argument.get_long() == Some(name)));
    argument.is_some_and(|argument| argument.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_with_what_a_person_added() {
        let words =
            Words::read(&["run", "--name", "a", "--call-timeout", "2m", "--tell-client", "--", "npx", "--name"]);
        let words = words.unwrap();
        assert_eq!((words.command, words.url), (Some(7), None));
        assert_eq!(words.foreign, ["--call-timeout 2m", "--tell-client"]);
        let words =
            Words::read(&["run", "--header-env", "A=B", "--transport", "sse", "--entry-without", "env", "http://x"]);
        let words = words.unwrap();
        assert_eq!((words.url, words.had_no("env"), words.had_no("args")), (Some(7), true, false));
        assert_eq!(words.header_variables, [("A".to_owned(), "B".to_owned())]);
        assert_eq!(Words::read(&["serve"]), None);
        assert_eq!(Words::read(&["run", "--"]).unwrap().command, None);
        assert_eq!(Words::read(&["run", "--call-timeout"]).unwrap().foreign, ["--call-timeout"]);
    }
}
