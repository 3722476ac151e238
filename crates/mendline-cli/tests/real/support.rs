//! A bridge to the demo server: its faults, its ledger, and helpers for processes.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub(crate) use crate::client::{Client, MENDLINE, SOON, eventually, failure, kill, lines_of};

/// The parameters of a bridge.
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

/// The use of Mendline's stderr by the client.
#[derive(Default, PartialEq, Eq)]
pub(crate) enum Stderr {
    #[default]
    Read,
    /// Keeps the pipe open and never reads it.
    Ignored,
}

/// A client of `mendline run` with the demo server.
pub(crate) struct Bridge {
    client: Client,
    folder: TempDir,
}

impl Bridge {
    /// Starts a bridge to the demo server with these faults and performs the handshake.
    pub(crate) fn around(faults: &[&str]) -> Bridge {
        let mut bridge = Bridge::start(Setup { faults, ..Setup::default() });
        bridge.initialize();
        bridge
    }

    pub(crate) fn start(setup: Setup<'_>) -> Bridge {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(MENDLINE);
        // A provisional answer must not replace the handshake of a slow server. Other tests cover it.
        command.args(["run", "--startup", "wait"]).args(setup.options).arg("--");
        match setup.command {
            Some(words) => command.args(words),
            None => command.args([MENDLINE, "demo-server"]),
        };
        for fault in setup.faults {
            command.args(["--fault", fault]);
        }
        command.env("MENDLINE_DEMO_LEDGER", folder.path().join("ledger"));
        command.envs(setup.environment.iter().copied());
        let mut client = Client::start(command.stdin(setup.stdin.unwrap_or_else(Stdio::piped)));
        if setup.stderr == Stderr::Read {
            client.read_log();
        }
        Bridge { client, folder }
    }

    /// Performs the handshake and checks that the demo server answered.
    pub(crate) fn initialize(&mut self) {
        assert_eq!(self.client.initialize(), "demo-server");
    }

    pub(crate) fn ledger(&self) -> String {
        fs::read_to_string(self.ledger_path()).unwrap_or_default()
    }

    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    /// Returns how often this call really ran.
    pub(crate) fn executions(&self, tool: &str, key: &str) -> usize {
        let run = format!("executed {tool} {key} ");
        self.ledger().lines().filter(|line| line.starts_with(&run)).count()
    }

    /// Returns the pids of the processes that recorded `what`, in order.
    pub(crate) fn noted(&self, what: &str) -> Vec<i32> {
        let lead = format!("{what} ");
        self.ledger().lines().filter_map(|line| line.strip_prefix(&lead)?.parse().ok()).collect()
    }

    /// Returns the server that started last.
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

/// Returns true if a process has ended, even if it is not reaped yet.
pub(crate) fn is_gone(pid: i32) -> bool {
    state(pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

/// Returns true if a process is stopped.
pub(crate) fn is_stopped(pid: i32) -> bool {
    state(pid).is_some_and(|(state, _)| state == 'T')
}

/// Returns the zombies among the children of a process.
pub(crate) fn zombies_of(parent: u32) -> Vec<i32> {
    children_of(parent).into_iter().filter(|pid| state(*pid).is_some_and(|(state, _)| state == 'Z')).collect()
}

/// Returns all children of a process.
pub(crate) fn children_of(parent: u32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|pid| state(*pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// Returns the state and the parent from `/proc/PID/stat`.
fn state(pid: i32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
