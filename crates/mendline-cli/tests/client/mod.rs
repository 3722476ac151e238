//! A client at the stdin and stdout of a real `mendline run`, whatever server is behind it.
//!
//! It waits for what it expects with a deadline and never sleeps to be lucky. What the server really did is known by the
//! server; each kind of test asks it in its own way.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take that should come at once, on a machine that has other things to do. It only bounds how long a
/// story takes to fail.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The binary under test.
pub(crate) const MENDLINE: &str = env!("CARGO_BIN_EXE_mendline");

/// Where it keeps what it knows of servers.
pub(crate) const STATE: &str = "MENDLINE_STATE_DIR";

/// Where it can be asked how it is.
pub(crate) const RUNTIME: &str = "MENDLINE_RUNTIME_DIR";
/// What says which log files it keeps.
const LOG_FILES: &str = "MENDLINE_LOG_FILES";

/// `mendline run` and its client.
pub(crate) struct Client {
    pub(crate) process: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) lines: Option<Receiver<String>>,
    log: Arc<Mutex<String>>,
    log_reader: Option<JoinHandle<()>>,
    /// What it keeps for the next time, which for most is never.
    _state: TempDir,
}

impl Client {
    /// Starts a command with pipes to talk through. What it logs is not read before [`Client::read_log`].
    pub(crate) fn start(command: &mut Command) -> Client {
        let state = tempfile::tempdir().unwrap();
        // Whoever has a state directory of its own wants to be remembered.
        if !command.get_envs().any(|(name, _)| name == STATE) {
            command.env(STATE, state.path());
        }
        // Nor may a test be seen by the user's own `mendline status`.
        if !command.get_envs().any(|(name, _)| name == RUNTIME) {
            command.env(RUNTIME, state.path().join("run"));
        }
        if !command.get_envs().any(|(name, _)| name == LOG_FILES) {
            command.env_remove(LOG_FILES);
        }
        command.env_remove("MENDLINE_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let lines = Some(lines_of(process.stdout.take().unwrap()));
        Client { process, stdin, lines, log: Arc::default(), log_reader: None, _state: state }
    }

    /// Reads the log from now on.
    pub(crate) fn read_log(&mut self) {
        let (mut stderr, log) = (BufReader::new(self.process.stderr.take().unwrap()), Arc::clone(&self.log));
        self.log_reader = Some(thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|count| count > 0) {
                log.lock().unwrap().push_str(&line);
                line.clear();
            }
        }));
    }

    /// The greeting of the legacy era, and the list that tells which tools only read. Gives the server's name.
    pub(crate) fn initialize(&mut self) -> String {
        self.initialize_within(SOON)
    }

    /// The same, where each answer may take longer.
    pub(crate) fn initialize_within(&mut self, within: Duration) -> String {
        let who = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": { "roots": {} }, "clientInfo": who });
        self.request("init", "initialize", &hello);
        let handshake = self.answer_within("init", within);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.request("list", "tools/list", &json!({}));
        let list = self.answer_within("list", within);
        assert!(list["result"]["tools"].is_array(), "{list}");
        handshake["result"]["serverInfo"]["name"].as_str().unwrap_or_else(|| panic!("{handshake}")).to_owned()
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
        self.line_within(SOON)
    }

    /// The next line as it came, where it may take longer.
    pub(crate) fn line_within(&mut self, within: Duration) -> String {
        self.lines
            .as_ref()
            .unwrap()
            .recv_timeout(within)
            .unwrap_or_else(|error| panic!("no line: {error}; log:\n{}", self.log()))
    }

    /// The answer to this request; everything before it is skipped.
    pub(crate) fn answer(&mut self, id: &str) -> Value {
        self.answer_within(id, SOON)
    }

    /// The same, where it may take longer.
    pub(crate) fn answer_within(&mut self, id: &str, within: Duration) -> Value {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message: Value =
                serde_json::from_str(&self.line_within(left)).expect("a line that is not JSON reached the client");
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

    /// Leaves, and gives everything that was ever logged: only of that can be said what is not in it.
    pub(crate) fn whole_log(&mut self) -> String {
        self.stdin = None;
        let reader = self.log_reader.take().unwrap();
        eventually("the log ends", SOON, || reader.is_finished());
        reader.join().unwrap();
        self.log()
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

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The facts of a call that Mendline itself had to answer.
pub(crate) fn failure(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    &result["_meta"]["dev.mendline/failure"]
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
