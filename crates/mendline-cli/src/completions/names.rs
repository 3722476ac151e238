//! The names that may follow on a line.
//!
//! Completion must answer at once and must not print errors into the typed line. It is therefore bounded in time, even
//! if a file is a pipe or a process is stopped. Names that are not known by then, and errors, are left out. A name that
//! a terminal or a shell could misinterpret is not offered.

use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use mendline::catalogue::peek;
use mendline::control::Registry;
use mendline::control::snapshot::StateKind;
use mendline::observe::escaped::is_harmless;
use mendline::observe::files::FOLDER;
use mendline::state::state_directory;
use mendline::stats::read_all;

use super::line::CursorPosition;
use crate::cli::{Cli, NEGATIVE};
use crate::named::{locate, read};
use crate::names as known;
use crate::{logs, output, running_name, wrap};

/// Time limit for everything.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for the answers of running processes.
const QUERY_TIMEOUT: Duration = Duration::from_millis(500);

/// Source of the names that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameSource {
    /// The configuration file, and the files of clients.
    Configured,
    /// The same, and the running servers that can be reached by their names.
    Reachable,
    /// The configuration file alone.
    Own,
    /// Everything: configured servers, and running ones.
    All,
    /// The running processes.
    Running,
    /// The running servers that are isolated, or that are not.
    Isolated(bool),
    /// The servers that have log files.
    Logged,
    /// The servers that have statistics.
    Counted,
    /// The cached tools of the server that was named before.
    Tools,
    /// The files of clients.
    Clients,
}

/// Commands that take the name of a tool after the name of its server.
const OF_TOOLS: [&str; 2] = ["tools", "call"];

/// Commands that take the name of a server as their first argument, and the id of that argument.
pub(super) const SERVERS: [(&str, &str, NameSource); 18] = [
    ("run", "target", NameSource::Reachable),
    ("serve", "target", NameSource::Configured),
    ("login", "target", NameSource::Configured),
    ("logout", "target", NameSource::Configured),
    ("token", "target", NameSource::Configured),
    ("doctor", "target", NameSource::All),
    ("set", "name", NameSource::Own),
    ("unset", "name", NameSource::Own),
    ("remove", "names", NameSource::Own),
    ("stats", "name", NameSource::Counted),
    ("tools", "words", NameSource::Reachable),
    ("call", "words", NameSource::Reachable),
    ("status", "name", NameSource::Running),
    ("reconnect", "name", NameSource::Running),
    ("isolate", "name", NameSource::Isolated(false)),
    ("resume", "name", NameSource::Isolated(true)),
    ("logs", "name", NameSource::Logged),
    ("report", "name", NameSource::All),
];

/// Options that take the name of a server: the command, the option, and the source of names.
pub(super) const OPTIONS: [(&str, &str, NameSource); 2] =
    [("wrap", "server", NameSource::Clients), ("unwrap", "server", NameSource::Clients)];

/// Prints the names that may follow, one on each line. The exit code says whether a name is expected at all.
pub(super) fn answer(line: &str) -> ExitCode {
    let position = CursorPosition::find(line, &<Cli as clap::CommandFactory>::command());
    let Some((position, wanted)) =
        position.and_then(|position| name_source(&position).map(|wanted| (position, wanted)))
    else {
        return ExitCode::from(NEGATIVE);
    };
    let (sender, receiver) = channel();
    // The process may exit while this thread still runs.
    std::thread::spawn(move || sender.send(names(&position, wanted)));
    let names = receiver.recv_timeout(TIMEOUT).unwrap_or_default();
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    output::data(lines.as_bytes());
    ExitCode::SUCCESS
}

/// Returns the source of names at this position.
fn name_source(position: &CursorPosition) -> Option<NameSource> {
    let command = position.command.as_str();
    if let Some(option) = &position.option {
        return OPTIONS.iter().find(|(of, name, _)| *of == command && name == option).map(|(.., source)| *source);
    }
    if position.server.is_some() {
        return OF_TOOLS.contains(&command).then_some(NameSource::Tools);
    }
    SERVERS.iter().find(|(it, ..)| *it == command).map(|(.., source)| *source)
}

fn names(position: &CursorPosition, source: NameSource) -> Vec<String> {
    let mut names = match source {
        NameSource::Configured => known::configured(position.config.as_deref()),
        NameSource::Reachable => reachable(position),
        NameSource::Own => own(position),
        NameSource::All => known::all(position.config.as_deref(), QUERY_TIMEOUT),
        NameSource::Counted => counted(),
        NameSource::Running => running(|_| true),
        NameSource::Isolated(wanted) => running(|kind| (kind == StateKind::Isolated) == wanted),
        NameSource::Logged => logged(),
        NameSource::Tools => tools(position).unwrap_or_default(),
        NameSource::Clients => wrap::server_names(),
    };
    if position.is_probe {
        names.extend(known::configured(position.config.as_deref()));
    }
    let mut offered: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        if is_fit(&name) && !offered.contains(&name) {
            offered.push(name);
        }
    }
    offered
}

/// Returns whether a name is one word that a command would accept as a name.
fn is_fit(name: &str) -> bool {
    let is_plain = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_harmless);
    is_plain && !name.contains("://") && !name.contains("${")
}

/// Returns the names of servers that a command can reach.
fn reachable(position: &CursorPosition) -> Vec<String> {
    let mut names = known::configured(position.config.as_deref());
    if position.config.is_none() {
        names.extend(running_name::names(QUERY_TIMEOUT));
    }
    names
}

/// Returns the names that the configuration file has, disabled ones included.
fn own(position: &CursorPosition) -> Vec<String> {
    let loaded = locate(position.config.as_deref()).and_then(|found| read(&found));
    loaded.map(|loaded| loaded.names).unwrap_or_default()
}

fn counted() -> Vec<String> {
    let all = state_directory(|name| std::env::var_os(name)).and_then(|state| read_all(&state).ok());
    all.unwrap_or_default().into_iter().map(|server| server.name).collect()
}

/// Returns the names of running servers in some state; a name of several servers also with each process.
fn running(is_meant: impl Fn(StateKind) -> bool) -> Vec<String> {
    let mut servers: Vec<(String, u32)> = Vec::new();
    for found in Registry::of_user().snapshots_within(QUERY_TIMEOUT) {
        let pid = found.process.pid;
        match found.snapshot {
            Ok(snapshot) => {
                let meant = snapshot.servers.into_iter().filter(|server| is_meant(server.state.kind));
                servers.extend(meant.map(|server| (server.name, pid)));
            }
            // A process that did not answer in time still has a known name.
            Err(_) => servers.push((found.process.name, pid)),
        }
    }
    let mut names: Vec<String> = servers.iter().map(|(name, _)| name.clone()).collect();
    names.sort_unstable();
    let has_several = |name: &String| servers.iter().filter(|(it, _)| it == name).count() > 1;
    names.extend(servers.iter().filter(|(name, _)| has_several(name)).map(|(name, pid)| format!("{name}#{pid}")));
    names
}

fn logged() -> Vec<String> {
    let folder = state_directory(|name| std::env::var_os(name)).map(|state| state.join(FOLDER));
    folder.map(|folder| logs::servers(&folder)).unwrap_or_default()
}

/// Returns the cached tools of a server. Completion starts no server.
fn tools(position: &CursorPosition) -> Option<Vec<String>> {
    let plan = known::plan(position.server.as_deref()?, position.config.as_deref())?;
    let state = state_directory(|name| std::env::var_os(name))?;
    peek(&state, &plan.identity()).map(|remembered| remembered.tools())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_names_are_offered() {
        for name in ["notes", "my notes", "plugin:github", "$(reboot)", "grüsse", "a'b"] {
            assert!(is_fit(name), "{name}");
        }
        for name in [
            "",
            "-x",
            "a\nb",
            "a\tb",
            "\u{1b}[2J",
            "a\u{9b}2J",
            "a\u{202e}b",
            "a\u{200b}b",
            "https://example.com",
            "${HOME}",
        ] {
            assert!(!is_fit(name), "{name:?}");
        }
    }
}
