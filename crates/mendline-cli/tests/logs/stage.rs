//! A home with a state directory, bridges that write log files, and `mendline logs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, MENDLINE, STATE};

/// The deadline for an exit on a busy machine.
pub(crate) const LATER: Duration = Duration::from_secs(20);

/// The output and the exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A separate home directory.
pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the directory of the log files.
    pub(crate) fn logs(&self) -> PathBuf {
        self.path("state/logs")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MENDLINE);
        self.at_home(command.args(arguments));
        command
    }

    /// Gives a command a clean environment.
    pub(crate) fn at_home(&self, command: &mut Command) {
        command
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("MENDLINE_DEMO_LEDGER", self.path("ledger"))
            .env(STATE, self.path("state"))
            .env("NO_PROXY", "*")
            .env("TZ", "UTC")
            .env_remove("MENDLINE_CONFIG")
            .env_remove("MENDLINE_LOG")
            .env_remove("MENDLINE_LOG_FILES");
    }

    /// Starts a bridge `notes` for the demo server with these faults, and performs the handshake.
    pub(crate) fn bridge(&self, options: &[&str], faults: &[&str]) -> Client {
        // A provisional answer must not replace the handshake of a slow server.
        let mut arguments = vec!["run", "--name", "notes", "--startup", "wait"];
        arguments.extend(options);
        arguments.extend(["--", MENDLINE, "demo-server"]);
        arguments.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
        let mut client = self.client(&arguments);
        assert_eq!(client.initialize(), "demo-server");
        client
    }

    /// Starts a client of this command line, without a handshake.
    pub(crate) fn client(&self, arguments: &[&str]) -> Client {
        let mut client = Client::start(self.command(arguments).stdin(Stdio::piped()));
        client.read_log();
        client
    }

    /// Runs `mendline logs`.
    pub(crate) fn run_logs(&self, arguments: &[&str]) -> CommandOutput {
        let arguments: Vec<&str> = std::iter::once("logs").chain(arguments.iter().copied()).collect();
        let Output { status, stdout, stderr } = self.command(&arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        CommandOutput { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Returns every log file with its content.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let Ok(entries) = fs::read_dir(self.logs()) else { return Vec::new() };
        let read = |path: &Path| String::from_utf8(fs::read(path).unwrap()).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), read(&entry.path())))
            .collect();
        files.sort();
        files
    }

    /// Returns every line of the log files.
    pub(crate) fn records(&self) -> Vec<Value> {
        let files = self.files();
        files.iter().flat_map(|(_, text)| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Writes a log file of a process that started at this second of the first of January.
    pub(crate) fn put(&self, server: &str, pid: u32, number: u32, text: &str) {
        fs::create_dir_all(self.logs()).unwrap();
        fs::write(self.logs().join(format!("{server}.20260101T080000Z.{pid}.{number}.jsonl")), text).unwrap();
    }
}

/// Returns a log line of `mendline run`, some milliseconds after eight o'clock.
pub(crate) fn line(at: u64, server: &str, pid: u32, level: &str, text: &str) -> String {
    let (seconds, millis) = (at / 1000, at % 1000);
    let time = format!("2026-01-01T08:{:02}:{:02}.{millis:03}000Z", seconds / 60 % 60, seconds % 60);
    let text = Value::from(text);
    format!(
        "{{\"time\":\"{time}\",\"level\":\"{level}\",\"server\":\"{server}\",\"pid\":{pid},\"kind\":\"stderr\",\"text\":{text}}}\n"
    )
}

/// Closes the client and waits until the log is written.
pub(crate) fn end(mut client: Client) {
    client.stdin = None;
    assert_eq!(client.exit_code(LATER), Some(0));
}
