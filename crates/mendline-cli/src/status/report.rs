//! The state of everything that runs, in the format of `mendline status --json`.
//!
//! The format is public. `schema.json` beside this file describes it, and a test checks it: members may be added, but
//! none is removed or changes its meaning while `version` stays.

use std::collections::BTreeMap;

use mendline::control::snapshot::{ProcessInfo, Server, StateKind, TransportKind, VERSION};
use mendline::control::words::Severity;
use mendline::control::{ProcessStatus, QueryError};
use serde::Serialize;

use super::logins::{Login, fruitless_today};
use super::memory::Memory;
use crate::target::ServerSelector;

/// The format as a JSON Schema.
pub(crate) const SCHEMA: &str = include_str!("schema.json");

/// Everything that runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) version: u32,
    /// By name, then by process.
    pub(crate) servers: Vec<Row>,
    /// Processes that have a socket but do not answer properly.
    pub(crate) unresponsive: Vec<UnresponsiveProcess>,
    /// Configured servers that do not run, probed.
    pub(crate) probed: Vec<Probed>,
    /// Stored logins, of running servers and of others.
    pub(crate) logins: Vec<Login>,
    /// True if a server was selected by name.
    #[serde(skip)]
    pub(crate) is_asked_by_name: bool,
}

/// One server of one process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// Name in the output: that of the server, with its process if there are several.
    pub(crate) id: String,
    pub(crate) process: ProcessInfo,
    #[serde(flatten)]
    pub(crate) server: Server,
    /// Memory of its processes, if it is a child.
    pub(crate) child_memory: Option<Memory>,
    /// Its login, if exactly one is stored for its origin.
    pub(crate) login: Option<Login>,
    /// Requests about its login that were fruitless today, over all processes.
    pub(crate) fruitless_today: u32,
}

/// A process that does not answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnresponsiveProcess {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) why: String,
}

/// A configured server that does not run, and the result of its probe.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Probed {
    pub(crate) name: String,
    pub(crate) transport: TransportKind,
    pub(crate) target: String,
    pub(crate) outcome: ProbeOutcome,
    /// Duration of the probe.
    pub(crate) took_ms: u64,
    /// The name that the server gave.
    pub(crate) server: Option<String>,
    /// The reason of a failure.
    pub(crate) why: Option<String>,
}

/// Result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProbeOutcome {
    /// It answered.
    Answers,
    /// It requires a login.
    NeedsLogin,
    /// It did not answer.
    Fails,
    /// It is disabled.
    Disabled,
}

impl ProbeOutcome {
    pub(crate) fn severity(self) -> Severity {
        match self {
            ProbeOutcome::Answers | ProbeOutcome::Disabled => Severity::Healthy,
            ProbeOutcome::NeedsLogin | ProbeOutcome::Fails => Severity::Unhealthy,
        }
    }
}

impl Report {
    pub(crate) fn of(found: Vec<ProcessStatus>) -> Report {
        let mut report = Report {
            version: VERSION,
            servers: Vec::new(),
            unresponsive: Vec::new(),
            probed: Vec::new(),
            logins: Vec::new(),
            is_asked_by_name: false,
        };
        for ProcessStatus { process, snapshot } in found {
            match snapshot {
                Ok(snapshot) => {
                    for server in snapshot.servers {
                        let id = server.name.clone();
                        let process = snapshot.process.clone();
                        report.servers.push(Row {
                            id,
                            process,
                            server,
                            child_memory: None,
                            login: None,
                            fruitless_today: 0,
                        });
                    }
                }
                Err(silence) => {
                    let why = match silence {
                        QueryError::TimedOut => "does not answer".to_owned(),
                        other => other.to_string(),
                    };
                    report.unresponsive.push(UnresponsiveProcess { name: process.name, pid: process.pid, why });
                }
            }
        }
        report.servers.sort_by(|left, right| left.key().cmp(&right.key()));
        report.number();
        report.weigh();
        report
    }

    /// Adds the process to names that occur more than once.
    fn number(&mut self) {
        let mut names = BTreeMap::new();
        let unresponsive = self.unresponsive.iter().map(|process| process.name.clone());
        for name in self.servers.iter().map(|row| row.server.name.clone()).chain(unresponsive) {
            *names.entry(name).or_insert(0) += 1;
        }
        for row in &mut self.servers {
            if names.get(&row.server.name).is_some_and(|count| *count > 1) {
                row.id = format!("{}#{}", row.server.name, row.process.pid);
            }
        }
    }

    fn weigh(&mut self) {
        let children: Vec<u32> = self.servers.iter().filter_map(|row| row.server.connection.child).collect();
        let memory = super::memory::of_groups(&children);
        for row in &mut self.servers {
            row.child_memory = row.server.connection.child.and_then(|child| memory.get(&child).copied());
        }
    }

    /// Adds the stored logins.
    pub(crate) fn add_logins(&mut self, logins: Vec<Login>) {
        for row in &mut self.servers {
            let mut its = logins.iter().filter(|login| login.server == row.server.target);
            if row.server.credential.is_some() {
                row.fruitless_today = fruitless_today(&row.server.target);
            }
            row.login = its.next().filter(|_| its.next().is_none() && row.server.credential.is_some()).cloned();
        }
        self.logins = logins;
    }

    /// Returns the names that can be selected.
    pub(crate) fn names(&self) -> Vec<String> {
        let unresponsive = self.unresponsive.iter().map(|process| format!("{}#{}", process.name, process.pid));
        self.servers.iter().map(|row| row.id.clone()).chain(unresponsive).collect()
    }

    /// Returns whether a server is selected.
    pub(crate) fn has(&self, wanted: &ServerSelector) -> bool {
        self.servers.iter().any(|row| wanted.is(&row.server.name, row.process.pid))
            || self.unresponsive.iter().any(|process| wanted.is(&process.name, process.pid))
    }

    /// Keeps only the selected servers.
    pub(crate) fn keep(&mut self, wanted: &ServerSelector) {
        self.is_asked_by_name = true;
        self.servers.retain(|row| wanted.is(&row.server.name, row.process.pid));
        self.unresponsive.retain(|process| wanted.is(&process.name, process.pid));
        self.logins.retain(|login| self.servers.iter().any(|row| row.server.target == login.server));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.unresponsive.is_empty() && self.probed.is_empty()
    }

    /// Returns the highest severity.
    pub(crate) fn severity(&self) -> Severity {
        let unresponsive = if self.unresponsive.is_empty() { Severity::Healthy } else { Severity::Unhealthy };
        let servers = self.servers.iter().map(|row| row.server.state.kind.severity());
        servers
            .chain(self.probed.iter().map(|probed| probed.outcome.severity()))
            .max()
            .unwrap_or(unresponsive)
            .max(unresponsive)
    }

    /// Counts the servers by state, the best first.
    pub(crate) fn counts(&self) -> BTreeMap<StateKind, usize> {
        let mut counts = BTreeMap::new();
        for row in &self.servers {
            *counts.entry(row.server.state.kind).or_insert(0) += 1;
        }
        counts
    }
}

impl Row {
    fn key(&self) -> (&str, u32) {
        (&self.server.name, self.process.pid)
    }
}
