//! Commands with a separate home directory, and servers for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mendline_faults::{Answers, Era, Settings};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use crate::client::MENDLINE;
use crate::scrubbed::scrubbed;
use crate::site::{self, Site, json_answers};

/// Variables of the machine that a test must not see.
const FOREIGN: [&str; 12] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "MENDLINE_CONFIG",
    "MENDLINE_LOG",
    "COLUMNS",
];

/// A temporary home directory.
pub(crate) struct Stage {
    folder: TempDir,
}

/// The output and the exit code of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage { folder: tempfile::tempdir().unwrap() }
    }

    /// Creates a home with this configuration file.
    pub(crate) fn with_file(text: &str) -> Stage {
        let stage = Stage::new();
        let folder = stage.path().join("config/mendline");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.json"), text).unwrap();
        stage
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join("config/mendline/config.json")
    }

    /// Returns the command with a clean environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MENDLINE);
        for variable in FOREIGN {
            command.env_remove(variable);
        }
        let home = |name: &str| self.path().join(name);
        command
            .args(arguments)
            .current_dir(self.path())
            .env("HOME", home("home"))
            .env("XDG_CONFIG_HOME", home("config"))
            .env("XDG_STATE_HOME", home("state"))
            .env("XDG_RUNTIME_DIR", home("runtime"))
            .env("MENDLINE_STATE_DIR", home("state/mendline"))
            .env("MENDLINE_RUNTIME_DIR", home("runtime/mendline"))
            .env("MENDLINE_DEMO_LEDGER", home("ledger"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command and returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(arguments).output().unwrap())
    }

    /// Returns the output of `mendline doctor` as snapshots contain it.
    pub(crate) fn doctor(&self, arguments: &[&str]) -> String {
        let printed = self.run(&[&["doctor"], arguments].concat());
        self.reviewed(&printed)
    }

    /// Returns the output with its variable parts replaced.
    pub(crate) fn reviewed(&self, printed: &CommandOutput) -> String {
        let CommandOutput { code, stdout, stderr } = printed;
        let text = format!("exit code {code}\n--- stdout\n{stdout}--- stderr\n{stderr}");
        let text = text.replace(self.path().to_str().unwrap(), "‹home›").replace(MENDLINE, "‹mendline›");
        scrubbed(&text)
    }

    pub(crate) fn ledger(&self) -> String {
        fs::read_to_string(self.path().join("ledger")).unwrap_or_default()
    }
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> CommandOutput {
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

/// Starts a legacy server with sessions.
pub(crate) fn legacy() -> Site {
    Site::start(json_answers())
}

/// Starts a modern server.
pub(crate) fn modern() -> Site {
    Site::start(site::modern(Answers::Json))
}

/// Starts a server of both eras.
pub(crate) fn both() -> Site {
    Site::start(Settings { era: Era::Both, ..json_answers() })
}
