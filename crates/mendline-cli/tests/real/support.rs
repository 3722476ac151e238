//! A client that drives `mendline run` around the demo server, and looks at processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take that should come at once.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// The binary under test.
pub(crate) const MENDLINE: &str = env!("CARGO_BIN_EXE_mendline");

/// How a bridge is to be started.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    pub(crate) options: &'a [&'a str],
    pub(crate) tempers: &'a [&'a str],
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

/// `mendline run` and its client.
pub(crate) struct Bridge {
    pub(crate) process: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) lines: Option<Receiver<String>>,
    log: Arc<Mutex<String>>,
    folder: TempDir,
}

impl Bridge {
    /// A bridge around the demo server with these tempers, greeted.
    pub(crate) fn around(tempers: &[&str]) -> Bridge {
        let mut bridge = Bridge::start(Setup { tempers, ..Setup::default() });
        bridge.greet();
        bridge
    }

    pub(crate) fn start(setup: Setup<'_>) -> Bridge {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(MENDLINE);
        command.arg("run").args(setup.options).arg("--");
        match setup.command {
            Some(words) => command.args(words),
            None => command.args([MENDLINE, "demo-server"]),
        };
        for temper in setup.tempers {
            command.args(["--temper", temper]);
        }
        command.env("MENDLINE_DEMO_LEDGER", folder.path().join("ledger")).env_remove("MENDLINE_LOG");
        command.envs(setup.environment.iter().copied());
        command.stdin(setup.stdin.unwrap_or_else(Stdio::piped)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let lines = Some(lines_of(process.stdout.take().unwrap()));
        let log = Arc::new(Mutex::new(String::new()));
        if setup.stderr == Stderr::Read {
            let (mut stderr, log) = (BufReader::new(process.stderr.take().unwrap()), Arc::clone(&log));
            thread::spawn(move || {
                let mut line = String::new();
                while stderr.read_line(&mut line).is_ok_and(|count| count > 0) {
                    log.lock().unwrap().push_str(&line);
                    line.clear();
                }
            });
        }
        Bridge { process, stdin, lines, log, folder }
    }

    /// The greeting of the legacy era, and the list that tells which tools only read.
    pub(crate) fn greet(&mut self) {
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        self.request("init", "initialize", &hello);
        assert_eq!(self.answer("init")["result"]["serverInfo"]["name"], "demo-server");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.request("list", "tools/list", &json!({}));
        assert!(self.answer("list")["result"]["tools"].is_array());
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn request(&mut self, id: &str, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
    }

    pub(crate) fn call(&mut self, id: &str, tool: &str, arguments: &Value) {
        self.request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }));
    }

    /// The next line as it came.
    pub(crate) fn line(&mut self) -> String {
        self.lines
            .as_ref()
            .unwrap()
            .recv_timeout(SOON)
            .unwrap_or_else(|error| panic!("no line: {error}; log:\n{}", self.log()))
    }

    /// The answer to this request; everything before it is skipped.
    pub(crate) fn answer(&mut self, id: &str) -> Value {
        loop {
            let message: Value =
                serde_json::from_str(&self.line()).expect("a line that is not JSON reached the client");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Calls and answers in one.
    pub(crate) fn result(&mut self, id: &str, tool: &str, arguments: &Value) -> Value {
        self.call(id, tool, arguments);
        self.answer(id)["result"].clone()
    }

    /// Everything that still comes until our stdout ends.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        let deadline = Instant::now() + SOON;
        let mut rest = Vec::new();
        loop {
            match self.lines.as_ref().unwrap().recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("stdout did not end; log:\n{}", self.log()),
            }
        }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
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

    pub(crate) fn signal(&self, signal: Signal) {
        kill(i32::try_from(self.process.id()).unwrap(), signal);
    }

    /// Waits for Mendline to end, and says with which code.
    pub(crate) fn exit_code(&mut self, within: Duration) -> Option<i32> {
        let mut status = None;
        eventually("Mendline ends", within, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The lines of a stream, read as they come.
pub(crate) fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Waits until it is so, and fails if it is not so in time.
pub(crate) fn eventually(what: &str, within: Duration, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !so() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Whether a process has ended. One that only waits for a lazy init to reap it has.
pub(crate) fn is_gone(pid: i32) -> bool {
    state(pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
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
