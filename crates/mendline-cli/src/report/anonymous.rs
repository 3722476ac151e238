//! Removal of everything that identifies the user from a report: secrets, the home directory, the names of the user and
//! of the machine.

use std::path::Path;

use mendline::observe::escaped::Escaped;
use mendline::observe::redact::Redactor;
use mendline::os::directories::HOME;
use mendline::os::system;

use super::configuration::Servers;

/// The minimum length of a name that is replaced. Shorter ones would match too many texts.
const SHORTEST: usize = 3;

/// Names of users that identify no person.
const COMMON: [&str; 4] = ["root", "user", "mendline", "runner"];

/// Replaces what identifies the user.
pub(crate) struct Anonymizer {
    redactor: Redactor,
    home: Option<String>,
    /// Names, and their replacements.
    names: Vec<(String, &'static str)>,
}

impl Anonymizer {
    /// Creates one that knows the values of these servers, and this process.
    pub(super) fn new(servers: &Servers) -> Anonymizer {
        let redactor = Redactor::default();
        redactor.learn(&servers.secrets());
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = variable(HOME);
        let folder = home.as_ref().and_then(|home| Path::new(home).file_name()?.to_str().map(str::to_owned));
        let users = [folder, variable("USER"), variable("LOGNAME"), variable("USERNAME")];
        let hosts = [system::host_name(), variable("HOSTNAME"), variable("HOST")];
        // A machine may be called by the first part of its name alone.
        let short = |host: &String| host.split('.').next().map(str::to_owned);
        let hosts: Vec<String> =
            hosts.into_iter().flatten().flat_map(|host| [short(&host), Some(host)]).flatten().collect();
        let users = users.into_iter().flatten().map(|name| (name, "‹user›"));
        let names = users.chain(hosts.into_iter().map(|name| (name, "‹host›")));
        Anonymizer::of(redactor, home, names.collect())
    }

    fn of(redactor: Redactor, home: Option<String>, mut names: Vec<(String, &'static str)>) -> Anonymizer {
        names.retain(|(name, _)| name.chars().count() >= SHORTEST && !COMMON.contains(&name.as_str()));
        // The longest first, so that a name within another one leaves no rest.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.dedup();
        let home = home.map(|home| home.trim_end_matches('/').to_owned()).filter(|home| home.len() > 1);
        Anonymizer { redactor, home, names }
    }

    /// Returns a text in which all of this is replaced, with control characters escaped.
    pub(crate) fn anonymous(&self, text: &str) -> String {
        let text = String::from_utf8_lossy(&self.redactor.redact(text.as_bytes())).into_owned();
        let text = match &self.home {
            Some(home) => text.replace(home, "~"),
            None => text,
        };
        let text = self.names.iter().fold(text, |text, (name, by)| replace_word(&text, name, by));
        text.lines().map(|line| Escaped(line.as_bytes()).to_string() + "\n").collect()
    }
}

/// Replaces a word where no letter or digit is beside it, in any case.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let (lower, wanted) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let mut replaced = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in lower.match_indices(&wanted) {
        let end = at + wanted.len();
        let is_part = |sign: Option<char>| sign.is_some_and(char::is_alphanumeric);
        if at < done || is_part(text[..at].chars().next_back()) || is_part(text[end..].chars().next()) {
            continue;
        }
        replaced += &text[done..at];
        replaced += by;
        done = end;
    }
    replaced + &text[done..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_user_and_host_are_replaced() {
        let names =
            vec![("kim".to_owned(), "‹user›"), ("kim-laptop".to_owned(), "‹host›"), ("root".to_owned(), "‹user›")];
        let anonymizer = Anonymizer::of(Redactor::default(), Some("/home/kim/".to_owned()), names);
        let text = "/home/kim/.cursor by kim on KIM-laptop, not kimono; user=kim;\u{1b}[2J root";
        let shown = anonymizer.anonymous(text);
        assert_eq!(shown, "~/.cursor by ‹user› on ‹host›, not kimono; user=‹user›;\\u{1b}[2J root\n");
    }

    #[test]
    fn root_directory_is_not_a_home_to_replace() {
        let anonymizer = Anonymizer::of(Redactor::default(), Some("/".to_owned()), Vec::new());
        assert_eq!(anonymizer.anonymous("/etc/x"), "/etc/x\n");
    }
}
