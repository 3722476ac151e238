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

use super::line::Place;
use crate::cli::{Cli, NEGATIVE};
use crate::named::{locate, read};
use crate::plan::Plan;
use crate::{logs, output};

/// Time limit for everything.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time limit for the answers of running processes.
const LOOK: Duration = Duration::from_millis(500);

/// Source of the names that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The configuration file.
    Configured,
    /// The running processes.
    Running,
    /// The running servers that are isolated, or that are not.
    Isolated(bool),
    /// The servers that have log files.
    Logged,
    /// The cached tools of the server that was named before.
    Tools,
}

/// Commands that take the name of a tool after the name of its server.
const OF_TOOLS: [&str; 2] = ["tools", "call"];

/// Commands that take the name of a server as their first argument, and the id of that argument.
pub(super) const SERVERS: [(&str, &str, Whose); 9] = [
    ("run", "target", Whose::Configured),
    ("doctor", "target", Whose::Configured),
    ("tools", "words", Whose::Configured),
    ("call", "words", Whose::Configured),
    ("status", "name", Whose::Running),
    ("reconnect", "name", Whose::Running),
    ("isolate", "name", Whose::Isolated(false)),
    ("resume", "name", Whose::Isolated(true)),
    ("logs", "name", Whose::Logged),
];

/// Prints the names that may follow, one on each line. The exit code says whether a name is expected at all.
pub(super) fn answer(line: &str) -> ExitCode {
    let place = Place::find(line, &<Cli as clap::CommandFactory>::command());
    let Some((place, wanted)) = place.and_then(|place| wanted(&place).map(|wanted| (place, wanted))) else {
        return ExitCode::from(NEGATIVE);
    };
    let (sender, receiver) = channel();
    // The process may exit while this thread still runs.
    std::thread::spawn(move || sender.send(names(&place, wanted)));
    let names = receiver.recv_timeout(PATIENCE).unwrap_or_default();
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    output::data(lines.as_bytes());
    ExitCode::SUCCESS
}

/// Returns the source of names at this position.
fn wanted(place: &Place) -> Option<Whose> {
    let command = place.command.as_str();
    if place.server.is_some() {
        return OF_TOOLS.contains(&command).then_some(Whose::Tools);
    }
    SERVERS.iter().find(|(it, ..)| *it == command).map(|(.., whose)| *whose)
}

fn names(place: &Place, whose: Whose) -> Vec<String> {
    let mut names = match whose {
        Whose::Configured => configured(place),
        Whose::Running => running(|_| true),
        Whose::Isolated(wanted) => running(|kind| (kind == StateKind::Isolated) == wanted),
        Whose::Logged => logged(),
        Whose::Tools => tools(place).unwrap_or_default(),
    };
    if place.is_probe {
        names.extend(configured(place));
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

fn configured(place: &Place) -> Vec<String> {
    let Ok(loaded) = locate(place.config.as_deref()).and_then(|found| read(&found)) else { return Vec::new() };
    let is_disabled = |name: &String| loaded.server(name).is_some_and(|server| server.is_disabled);
    loaded.names.iter().filter(|name| !is_disabled(name)).cloned().collect()
}

/// Returns the names of running servers in some state; a name of several servers also with each process.
fn running(is_meant: impl Fn(StateKind) -> bool) -> Vec<String> {
    let mut servers: Vec<(String, u32)> = Vec::new();
    for found in Registry::of_user().snapshots_within(LOOK) {
        let pid = found.process.pid;
        match found.answer {
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
fn tools(place: &Place) -> Option<Vec<String>> {
    let loaded = locate(place.config.as_deref()).and_then(|found| read(&found)).ok()?;
    let plan = Plan::of_server(loaded.server(place.server.as_deref()?)?, None).ok()?;
    let state = state_directory(|name| std::env::var_os(name))?;
    peek(&state, &plan.identity()).map(|remembered| remembered.tools())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_offered_only_if_it_is_one() {
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
