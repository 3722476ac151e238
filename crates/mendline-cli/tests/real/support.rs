//! A bridge to the demo server: its tempers, its ledger, and a look at processes.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub(crate) use crate::client::{Client, MENDLINE, SOON, eventually, failure, kill, lines_of};

/// How a bridge is to be started.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    pub(crate) options: &'a [&'a str],
    pub(crate) faults: &'a [&'a str],
    pub(crate) environment: &'a [(&'a str, &'a str)],
    /// The server's command, if it is not the demo server.
    pub(crate) command: Option<&'a [&'a str]>,
    pub(crate) stderr: Stderr,
    pub(crate) stdin: Option<Stdio>,
}

/// What the client does with our stderr.
#[derive(Default, PartialEq, Eq)]
pub(crate) enum Stderr {
    #[default]
    Read,
    /// Keeps the pipe and never looks.
    Ignored,
}

/// A client of `mendline run` around the demo server.
pub(crate) struct Bridge {
    client: Client,
    folder: TempDir,
}

impl Bridge {
    /// A bridge around the demo server with these tempers, greeted.
    pub(crate) fn around(faults: &[&str]) -> Bridge {
        let mut bridge = Bridge::start(Setup { faults, ..Setup::default() });
        bridge.initialize();
        bridge
    }

    pub(crate) fn start(setup: Setup<'_>) -> Bridge {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(MENDLINE);
        // However slow its start is, nobody stands in for it; whoever does so has stories of its own.
        command.args(["run", "--startup", "wait"]).args(setup.options).arg("--");
        match setup.command {
            Some(words) => command.args(words),
            None => command.args([MENDLINE, "demo-server"]),
        };
        for fault in setup.faults {
            command.args(["--temper", fault]);
        }
        command.env("MENDLINE_DEMO_LEDGER", folder.path().join("ledger"));
        command.envs(setup.environment.iter().copied());
        let mut client = Client::start(command.stdin(setup.stdin.unwrap_or_else(Stdio::piped)));
        if setup.stderr == Stderr::Read {
            client.read_log();
        }
        Bridge { client, folder }
    }

    /// Greets, and makes sure that it is the demo server.
    pub(crate) fn initialize(&mut self) {
        assert_eq!(self.client.initialize(), "demo-server");
    }

    pub(crate) fn ledger(&self) -> String {
        fs::read_to_string(self.ledger_path()).unwrap_or_default()
    }

    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    /// How often this call really ran.
    pub(crate) fn executions(&self, tool: &str, key: &str) -> usize {
        let run = format!("executed {tool} {key} ");
        self.ledger().lines().filter(|line| line.starts_with(&run)).count()
    }

    /// The ids of the processes that noted `what`, in order.
    pub(crate) fn noted(&self, what: &str) -> Vec<i32> {
        let lead = format!("{what} ");
        self.ledger().lines().filter_map(|line| line.strip_prefix(&lead)?.parse().ok()).collect()
    }

    /// The server that started last.
    pub(crate) fn server(&self) -> i32 {
        *self.noted("start").last().expect("no server started")
    }
}

impl Deref for Bridge {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Bridge {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// Whether a process has ended. One that only waits for a lazy init to reap it has.
pub(crate) fn is_gone(pid: i32) -> bool {
    state(pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

/// Whether a process was stopped and does not run until it is told to go on.
pub(crate) fn is_stopped(pid: i32) -> bool {
    state(pid).is_some_and(|(state, _)| state == 'T')
}

/// The children of a process that have ended and are not reaped.
pub(crate) fn zombies_of(parent: u32) -> Vec<i32> {
    children_of(parent).into_iter().filter(|pid| state(*pid).is_some_and(|(state, _)| state == 'Z')).collect()
}

/// All children of a process.
pub(crate) fn children_of(parent: u32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|pid| state(*pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// What `/proc/PID/stat` says: the state and the parent.
fn state(pid: i32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
