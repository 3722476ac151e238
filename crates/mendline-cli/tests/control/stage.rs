//! A runtime directory, the bridges in it, and a person who asks about them.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mendline::control::Registry;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, MENDLINE, RUNTIME, eventually};

/// How long a state may take to be seen, on a machine that has other things to do.
pub(crate) const LATER: Duration = Duration::from_secs(30);

/// A home of its own.
pub(crate) struct Stage {
    folder: TempDir,
    runtime: PathBuf,
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::at("run")
    }

    /// With a runtime directory of this name.
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

    /// The processes that run here.
    pub(crate) fn registry(&self) -> Registry {
        Registry::of(vec![self.runtime()])
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MENDLINE);
        command.args(arguments).env(RUNTIME, self.runtime()).env_remove("MENDLINE_CONFIG");
        command.env("XDG_CONFIG_HOME", self.folder.path()).env("HOME", self.folder.path()).env("NO_PROXY", "*");
        command.env("MENDLINE_DEMO_LEDGER", self.folder.path().join("ledger"));
        command
    }

    /// `mendline run` with these arguments, not greeted.
    pub(crate) fn run(&self, arguments: &[&str]) -> Client {
        let mut command = self.command(&["run"]);
        let mut client = Client::start(command.args(arguments).stdin(Stdio::piped()));
        client.read_log();
        client
    }

    /// A bridge of this name around the demo server, greeted.
    pub(crate) fn bridge(&self, name: &str) -> Client {
        // However slow its start is, nobody stands in for it.
        let mut client = self.run(&["--name", name, "--startup", "wait", "--", MENDLINE, "demo-server"]);
        assert_eq!(client.greet(), "demo-server");
        client
    }

    /// Asks, and gives everything that was said.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Said {
        let begun = Instant::now();
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let took = begun.elapsed();
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr), took }
    }

    /// Asks again until this is said. All processes together have a second to answer, and on a busy machine one that is
    /// well may miss that.
    pub(crate) fn ask_until(&self, arguments: &[&str], is_so: impl Fn(&Said) -> bool) -> Said {
        let deadline = Instant::now() + LATER;
        loop {
            let said = self.ask(arguments);
            if is_so(&said) {
                return said;
            }
            assert!(Instant::now() < deadline, "{arguments:?}: not said within {LATER:?}; last: {said:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Tells somebody to do something, again if the process was too busy to hear or to do it at once. What it may have done
    /// all the same is undone before, so that what is said at last is what is said the first time.
    pub(crate) fn steer(&self, arguments: &[&str]) -> Said {
        let deadline = Instant::now() + LATER;
        loop {
            let said = self.ask(arguments);
            let was_busy = ["it does not answer", "has not carried it out", "still trying after"];
            if !was_busy.iter().any(|words| said.stdout.contains(words)) || Instant::now() > deadline {
                return said;
            }
            let opposite = match arguments[0] {
                "isolate" => "resume",
                "resume" => "isolate",
                _ => continue,
            };
            self.ask(&[&[opposite], &arguments[1..]].concat());
        }
    }

    /// What `status --json` says once it is so.
    pub(crate) fn report_until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        self.ask_until(&["status", "--json"], |said| is_so(&said.json())).json()
    }

    /// The server of this name.
    pub(crate) fn server(&self, name: &str) -> Value {
        self.until(name, "it answers", |_| true)
    }

    /// Waits until the server of this name is so, and gives how it is then.
    pub(crate) fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let deadline = Instant::now() + LATER;
        while Instant::now() < deadline {
            let report = self.ask(&["status", "--json"]).json();
            last = report["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).cloned();
            if last.as_ref().is_some_and(&is_so) {
                return last.unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not within {LATER:?}: {what}; last seen: {last:#?}");
    }

    /// The sockets that lie here.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.runtime()) else { return Vec::new() };
        let entries = entries.map(|entry| entry.unwrap());
        entries.filter(|entry| entry.file_type().unwrap().is_socket()).map(|entry| entry.path()).collect()
    }
}

impl Said {
    /// What was said, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// How a server is, in one word.
pub(crate) fn kind(server: &Value) -> &str {
    server["state"]["kind"].as_str().unwrap()
}

/// The process id of a server that is a child.
pub(crate) fn child(server: &Value) -> i32 {
    server["connection"]["child"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap()
}

/// Waits until a process is gone, or only waits for its parent to notice.
pub(crate) fn until_gone(pid: i32) {
    eventually("the process is gone", LATER, || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    });
}
