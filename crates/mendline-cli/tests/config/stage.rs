//! A home directory with a configuration file, and `mendline` commands in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, MENDLINE, RUNTIME, STATE};

/// The secret that must not be visible anywhere.
pub(crate) const SECRET: &str = "canary-s3cret";

/// A home directory with a configuration file.
pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    /// Creates the configuration file of the user with this text.
    pub(crate) fn with(text: &str) -> Stage {
        let stage = Stage { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(stage.folder.path().join("mendline")).unwrap();
        stage.write(text);
        stage
    }

    /// Creates a home directory without a configuration file.
    pub(crate) fn empty() -> Stage {
        Stage { folder: tempfile::tempdir().unwrap() }
    }

    /// The home directory.
    pub(crate) fn home(&self) -> &Path {
        self.folder.path()
    }

    /// Writes the file of a client, below the home directory.
    pub(crate) fn client_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes the file like an editor: into a new file that replaces the old one.
    pub(crate) fn write(&self, text: &str) {
        let beside = self.path().with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.path()).unwrap();
    }

    /// The configuration file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("mendline/config.json")
    }

    /// Writes another file beside it.
    pub(crate) fn other(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MENDLINE);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("MENDLINE_CONFIG")
            .env_remove("MENDLINE_LOG")
            .env_remove("CLAUDE_CONFIG_DIR")
            .env_remove("CODEX_HOME")
            .env("HOME", self.folder.path())
            .env(STATE, self.folder.path().join("state"))
            .env(RUNTIME, self.folder.path().join("run"))
            .env("NO_PROXY", "*")
            .env("XDG_CONFIG_HOME", self.folder.path())
            .env("MENDLINE_DEMO_LEDGER", self.ledger_path())
            .env("STAGE_TOKEN", SECRET);
        command
    }

    /// Runs a command to its end. Returns its exit code and its output.
    pub(crate) fn output(&self, arguments: &[&str]) -> (i32, String) {
        let Output { status, stdout, stderr } = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let printed = format!("{}{}", String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert!(!printed.contains(SECRET), "{printed}");
        (status.code().unwrap(), printed.replace(self.folder.path().to_str().unwrap(), "HOME"))
    }

    /// Starts `mendline run` with these arguments and performs the handshake.
    pub(crate) fn client(&self, arguments: &[&str]) -> Client {
        // A provisional answer must not replace the handshake of a slow server.
        let arguments = [&["run", "--startup", "wait"], arguments].concat();
        let mut client = Client::start(self.command(&arguments).stdin(Stdio::piped()));
        client.read_log();
        assert_eq!(client.initialize(), "demo-server");
        client
    }

    /// Starts `mendline run` for a server of the fault server and performs the handshake.
    pub(crate) fn faulty_client(&self, arguments: &[&str]) -> Client {
        let arguments = [&["run", "--startup", "wait"], arguments].concat();
        let mut client = Client::start(self.command(&arguments).stdin(Stdio::piped()));
        client.read_log();
        assert_eq!(client.initialize(), "mendline-faults");
        client
    }

    fn ledger_path(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    /// Returns the pids of the started servers, in order.
    pub(crate) fn started(&self) -> Vec<i32> {
        let ledger = fs::read_to_string(self.ledger_path()).unwrap_or_default();
        ledger.lines().filter_map(|line| line.strip_prefix("start ")?.parse().ok()).collect()
    }

    /// Returns how often this call really ran.
    pub(crate) fn executions(&self, tool: &str, key: &str) -> usize {
        let ledger = fs::read_to_string(self.ledger_path()).unwrap_or_default();
        ledger.lines().filter(|line| line.starts_with(&format!("executed {tool} {key} "))).count()
    }
}

/// Returns an entry that runs the demo server.
pub(crate) fn demo() -> Value {
    json!({ "command": MENDLINE, "args": ["demo-server"] })
}

/// Returns a configuration file with these servers.
pub(crate) fn file(servers: &Value) -> String {
    json!({ "mendline": {}, "mcpServers": servers }).to_string()
}
