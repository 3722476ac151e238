//! A home directory with a configuration, a running bridge in it, and commands with the output that a test chooses.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary under test.
pub(crate) const MENDLINE: &str = env!("CARGO_BIN_EXE_mendline");

/// The time after which a command counts as hanging. It only bounds the time until a test fails.
const STUCK: Duration = Duration::from_secs(120);

/// A separate home directory.
pub(crate) struct Stage {
    folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Stage {
    /// A stage with this configuration.
    pub(crate) fn new(configuration: &Value) -> Stage {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mendline")).unwrap();
        let stage = Stage { folder };
        fs::write(stage.configuration(), format!("{configuration:#}\n")).unwrap();
        stage
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.path().join("mendline/config.json")
    }

    pub(crate) fn command<T: AsRef<str>>(&self, arguments: &[T]) -> Command {
        let mut command = Command::new(MENDLINE);
        command.args(arguments.iter().map(AsRef::as_ref));
        self.prepare(&mut command);
        command
    }

    /// Runs a command through a shell that changes the descriptors first, like `>&-`.
    pub(crate) fn through_shell<T: AsRef<str>>(&self, redirection: &str, arguments: &[T]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}"), MENDLINE]);
        command.args(arguments.iter().map(AsRef::as_ref));
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command.current_dir(self.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path()).env("NO_PROXY", "*");
        command
            .env("MENDLINE_RUNTIME_DIR", self.path().join("run"))
            .env("MENDLINE_STATE_DIR", self.path().join("state"));
        command.env("RUST_BACKTRACE", "0");
        for name in ["MENDLINE_CONFIG", "MENDLINE_LOG", "MENDLINE_LOG_FILES", "MENDLINE_DEMO_LEDGER", "NO_COLOR"] {
            command.env_remove(name);
        }
    }

    /// Starts a bridge of this name for the demo server and performs the handshake.
    pub(crate) fn bridge(&self, name: &str) -> Bridge {
        let mut command = self.command(&["run", "--name", name, "--startup", "wait", "--", MENDLINE, "demo-server"]);
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        process.stdin.as_mut().unwrap().write_all(initialize().as_bytes()).unwrap();
        let mut answer = [0; 1];
        process.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
        Bridge { process }
    }

    /// Returns every command. Each has a manual page, except two.
    pub(crate) fn commands(&self) -> BTreeSet<String> {
        let pages = self.path().join("pages");
        let ended = finish(&mut self.command(&["man", "--output", pages.to_str().unwrap()]));
        assert!(ended.status.success(), "{ended:?}");
        let names = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names = names.filter_map(|name| Some(name.strip_prefix("mendline-")?.strip_suffix(".1")?.to_owned()));
        let mut names: BTreeSet<String> = names.collect();
        assert!(names.len() > 10, "{names:?}");
        names.extend(["help", "demo-server"].map(str::to_owned));
        names
    }
}

/// A running `mendline run`.
pub(crate) struct Bridge {
    process: Child,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Closing stdin ends the bridge.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Returns the first request of a client.
pub(crate) fn initialize() -> String {
    let who = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }))
}

/// Runs a command to its end and reads its pipes.
pub(crate) fn finish(command: &mut Command) -> CommandOutput {
    let mut process = command.spawn().unwrap();
    let stdout = process.stdout.take().map(|pipe| thread::spawn(move || everything(pipe)));
    let stderr = process.stderr.take().map(|pipe| thread::spawn(move || everything(pipe)));
    let status = wait(&mut process, command);
    let read = |reader: Option<thread::JoinHandle<Vec<u8>>>| reader.map_or_else(Vec::new, |it| it.join().unwrap());
    CommandOutput { status, stdout: read(stdout), stderr: read(stderr) }
}

/// Waits for the exit of a command.
pub(crate) fn wait(process: &mut Child, command: &Command) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > STUCK {
            process.kill().unwrap();
            panic!("stuck: {command:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn everything(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    bytes
}
