//! A row of the screen: one server of one process.
//!
//! A row is identified by its process and its name, so that the selection stays with its server while others come and
//! go. A process that stops answering keeps its rows, with the last known state and a mark, because a hanging server is
//! what an operator looks for.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mendline::control::snapshot::{ProcessInfo, Server, StateKind};
use mendline::control::words::Severity;
use mendline::control::{QueryError, Snapshot};

/// The result of a poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poll {
    /// Time, in milliseconds since 1970.
    pub(crate) at: u64,
    /// All running processes.
    pub(crate) processes: Vec<PolledProcess>,
    /// Memory of children, by process id.
    pub(crate) memory: BTreeMap<u32, u64>,
    /// Directories that were skipped, with the reason.
    pub(crate) distrusted: Vec<String>,
}

/// A process and its answer.
#[derive(Clone, Debug)]
pub(crate) struct PolledProcess {
    pub(crate) pid: u32,
    /// Name of its first server.
    pub(crate) name: String,
    pub(crate) answer: Result<Snapshot, QueryError>,
}

/// Identity of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) pid: u32,
}

/// One server of one process.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: Key,
    /// Name on the screen: that of the server, with its process if there are several.
    pub(crate) id: String,
    /// The last known state, if the process ever answered.
    pub(crate) known: Option<(ProcessInfo, Server)>,
    /// The reason why the current state is unknown.
    pub(crate) silence: Option<String>,
    /// Memory of its processes, if it is a child.
    pub(crate) memory: Option<u64>,
}

impl Row {
    pub(crate) fn server(&self) -> Option<&Server> {
        self.known.as_ref().map(|(_, server)| server)
    }

    /// Returns the state as text.
    pub(crate) fn state(&self) -> String {
        match (&self.silence, self.server()) {
            (Some(why), _) => why.clone(),
            (None, Some(server)) => server.state.words(),
            (None, None) => String::new(),
        }
    }

    /// Returns the state in one word.
    pub(crate) fn word(&self) -> &'static str {
        match self.kind() {
            Some(kind) => kind.word(),
            None => "unresponsive",
        }
    }

    pub(crate) fn severity(&self) -> Severity {
        self.kind().map_or(Severity::Unhealthy, StateKind::severity)
    }

    /// Returns the state; `None` if the process does not answer.
    pub(crate) fn kind(&self) -> Option<StateKind> {
        self.server().filter(|_| self.silence.is_none()).map(|server| server.state.kind)
    }

    /// Returns whether the row matches this filter, which is in lower case.
    pub(crate) fn matches(&self, filter: &str) -> bool {
        let target = self.server().map_or("", |server| &server.target);
        let error = self.server().and_then(|server| server.last_error.as_ref()).map_or("", |error| &error.what);
        let state = self.state();
        let client = self.known.as_ref().and_then(|(process, _)| process.client_name()).unwrap_or_default();
        [&self.id, &state, target, error, client].iter().any(|text| text.to_lowercase().contains(filter))
    }

    fn p95(&self) -> Option<u64> {
        self.server().and_then(|server| server.latency.p95_us)
    }
}

/// Order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    #[default]
    Name,
    /// The most severe first.
    State,
    /// The slowest first.
    Latency,
}

impl Sort {
    pub(crate) fn next(self) -> Sort {
        match self {
            Sort::Name => Sort::State,
            Sort::State => Sort::Latency,
            Sort::Latency => Sort::Name,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::State => "state",
            Sort::Latency => "latency",
        }
    }

    /// Sorts rows; equal ones stay in the order of their names.
    pub(crate) fn order(self, rows: &mut [&Row]) {
        rows.sort_by(|left, right| left.key.cmp(&right.key));
        match self {
            Sort::Name => {}
            Sort::State => rows.sort_by_key(|row| (Reverse(row.severity()), row.kind().is_some(), Reverse(row.kind()))),
            Sort::Latency => rows.sort_by_key(|row| Reverse(row.p95())),
        }
    }
}

/// Builds the rows of a poll. `known` holds the last answer of each process.
pub(crate) fn rows(poll: &Poll, known: &mut BTreeMap<u32, Snapshot>) -> Vec<Row> {
    known.retain(|pid, _| poll.processes.iter().any(|seen| seen.pid == *pid));
    let mut rows = Vec::new();
    for seen in &poll.processes {
        if let Ok(snapshot) = &seen.answer {
            known.insert(seen.pid, snapshot.clone());
        }
        let silence = seen.answer.as_ref().err().map(|silence| match silence {
            QueryError::TimedOut => "does not answer".to_owned(),
            other => other.to_string(),
        });
        let row = |name: &str, known| {
            let key = Key { name: name.to_owned(), pid: seen.pid };
            Row { id: name.to_owned(), key, known, silence: silence.clone(), memory: None }
        };
        match known.get(&seen.pid) {
            Some(snapshot) => rows.extend(snapshot.servers.iter().map(|server| {
                let memory = server.connection.child.and_then(|child| poll.memory.get(&child).copied());
                Row { memory, ..row(&server.name, Some((snapshot.process.clone(), server.clone()))) }
            })),
            None => rows.push(row(&seen.name, None)),
        }
    }
    number(&mut rows);
    rows.sort_by(|left, right| left.key.cmp(&right.key));
    rows
}

/// Adds the process to names that occur more than once.
fn number(rows: &mut [Row]) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.iter() {
        *times.entry(row.key.name.clone()).or_default() += 1;
    }
    for row in rows {
        if times.get(&row.key.name).is_some_and(|times| *times > 1) {
            row.id = format!("{}#{}", row.key.name, row.key.pid);
        }
    }
}
