//! A runtime directory, the bridges in it, and commands that query and control them.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mendline::control::Registry;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, MENDLINE, RUNTIME, eventually};

/// The deadline for a state to become visible on a busy machine.
pub(crate) const LATER: Duration = Duration::from_secs(30);

/// A separate home directory.
pub(crate) struct Stage {
    folder: TempDir,
    runtime: PathBuf,
}

/// The output and the exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::at("run")
    }

    /// Creates a stage with a runtime directory of this name.
    pub(crate) fn at(name: &str) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join(name);
        Stage { folder, runtime }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.runtime.clone()
    }

    /// Returns the registry of the processes of this stage.
    pub(crate) fn registry(&self) -> Registry {
        Registry::of(vec![self.runtime()])
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MENDLINE);
        command.args(arguments).env(RUNTIME, self.runtime()).env_remove("MENDLINE_CONFIG");
        command
            .env("XDG_CONFIG_HOME", self.folder.path())
            .env("HOME", self.folder.path())
            .env("NO_PROXY", "*")
            .env("TZ", "UTC");
        command.env("MENDLINE_DEMO_LEDGER", self.folder.path().join("ledger"));
        command
    }

    /// Starts `mendline run` with these arguments, without a handshake.
    pub(crate) fn run(&self, arguments: &[&str]) -> Client {
        let mut command = self.command(&["run"]);
        let mut client = Client::start(command.args(arguments).stdin(Stdio::piped()));
        client.read_log();
        client
    }

    /// Starts a bridge of this name for the demo server and performs the handshake.
    pub(crate) fn bridge(&self, name: &str) -> Client {
        // A provisional answer must not replace the handshake of a slow server.
        let mut client = self.run(&["--name", name, "--startup", "wait", "--", MENDLINE, "demo-server"]);
        assert_eq!(client.initialize(), "demo-server");
        client
    }

    /// Runs a command and returns its output.
    pub(crate) fn query(&self, arguments: &[&str]) -> CommandOutput {
        let begun = Instant::now();
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let took = begun.elapsed();
        CommandOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), took }
    }

    /// Repeats a command until the condition holds. All processes together have one second to answer, which a healthy
    /// process may miss on a busy machine.
    pub(crate) fn query_until(&self, arguments: &[&str], is_so: impl Fn(&CommandOutput) -> bool) -> CommandOutput {
        let deadline = Instant::now() + LATER;
        loop {
            let printed = self.query(arguments);
            if is_so(&printed) {
                return printed;
            }
            assert!(Instant::now() < deadline, "{arguments:?}: not printed within {LATER:?}; last: {printed:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a control command, and repeats it if the process was too slow. The inverse command runs before each
    /// repetition, so that the last output equals that of a first run.
    pub(crate) fn control(&self, arguments: &[&str]) -> CommandOutput {
        let deadline = Instant::now() + LATER;
        loop {
            let printed = self.query(arguments);
            let was_busy = ["it does not answer", "has not done it", "still trying after"];
            if !was_busy.iter().any(|words| printed.stdout.contains(words)) || Instant::now() > deadline {
                return printed;
            }
            let opposite = match arguments[0] {
                "isolate" => "resume",
                "resume" => "isolate",
                _ => continue,
            };
            self.query(&[&[opposite], &arguments[1..]].concat());
        }
    }

    /// Returns the output of `status --json` once the condition holds.
    pub(crate) fn report_until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        self.query_until(&["status", "--json"], |printed| is_so(&printed.json())).json()
    }

    /// Returns the server of this name.
    pub(crate) fn server(&self, name: &str) -> Value {
        self.until(name, "it answers", |_| true)
    }

    /// Waits until the condition holds for the server of this name, and returns its state.
    pub(crate) fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let deadline = Instant::now() + LATER;
        while Instant::now() < deadline {
            let report = self.query(&["status", "--json"]).json();
            last = report["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).cloned();
            if last.as_ref().is_some_and(&is_so) {
                return last.unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not within {LATER:?}: {what}; last seen: {last:#?}");
    }

    /// Returns the sockets of this stage.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.runtime()) else { return Vec::new() };
        let entries = entries.map(|entry| entry.unwrap());
        entries.filter(|entry| entry.file_type().unwrap().is_socket()).map(|entry| entry.path()).collect()
    }
}

impl CommandOutput {
    /// Parses the output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Returns the state of a server.
pub(crate) fn kind(server: &Value) -> &str {
    server["state"]["kind"].as_str().unwrap()
}

/// Returns the pid of a server that is a child.
pub(crate) fn child(server: &Value) -> i32 {
    server["connection"]["child"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap()
}

/// Waits until a process is gone or a zombie.
pub(crate) fn until_gone(pid: i32) {
    eventually("the process is gone", LATER, || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    });
}
