//! A client at the stdin and stdout of a real `mendline run`, for any server.
//!
//! It waits for each expected event with a deadline and never sleeps for a fixed time. Each test asks its server what
//! really ran.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The deadline for anything that should happen at once, on a busy machine. It only bounds the time until a test fails.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The binary under test.
pub(crate) const MENDLINE: &str = env!("CARGO_BIN_EXE_mendline");

/// The variable with the directory of the cached handshakes and lists.
pub(crate) const STATE: &str = "MENDLINE_STATE_DIR";

/// The variable with the directory of the control sockets.
pub(crate) const RUNTIME: &str = "MENDLINE_RUNTIME_DIR";
/// The variable that sets the level of the log files.
const LOG_FILES: &str = "MENDLINE_LOG_FILES";

/// `mendline run` and its client.
pub(crate) struct Client {
    pub(crate) process: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) lines: Option<Receiver<String>>,
    log: Arc<Mutex<String>>,
    log_reader: Option<JoinHandle<()>>,
    /// The state directory of a client that has no other.
    _state: TempDir,
}

impl Client {
    /// Starts a command with pipes. The log is not read before [`Client::read_log`].
    pub(crate) fn start(command: &mut Command) -> Client {
        let state = tempfile::tempdir().unwrap();
        // A test with its own state directory uses the cache.
        if !command.get_envs().any(|(name, _)| name == STATE) {
            command.env(STATE, state.path());
        }
        // The user's own `mendline status` must not see the test.
        if !command.get_envs().any(|(name, _)| name == RUNTIME) {
            command.env(RUNTIME, state.path().join("run"));
        }
        if !command.get_envs().any(|(name, _)| name == LOG_FILES) {
            command.env_remove(LOG_FILES);
        }
        // A login must not open the browser of the person who runs the tests.
        for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"] {
            if !command.get_envs().any(|(known, _)| known == name) {
                command.env_remove(name);
            }
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

    /// Performs the legacy handshake and lists the tools, so that Mendline knows which tools only read. Returns the
    /// name of the server.
    pub(crate) fn initialize(&mut self) -> String {
        self.initialize_within(SOON)
    }

    /// The same, with another deadline for each answer.
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

    /// Returns the next line unchanged.
    pub(crate) fn line(&mut self) -> String {
        self.line_within(SOON)
    }

    /// Returns the next line unchanged, with another deadline.
    pub(crate) fn line_within(&mut self, within: Duration) -> String {
        self.lines
            .as_ref()
            .unwrap()
            .recv_timeout(within)
            .unwrap_or_else(|error| panic!("no line: {error}; log:\n{}", self.log()))
    }

    /// Returns the answer to this request and skips every message before it.
    pub(crate) fn answer(&mut self, id: &str) -> Value {
        self.answer_within(id, SOON)
    }

    /// The same, with another deadline.
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

    /// Calls a tool and returns its result.
    pub(crate) fn result(&mut self, id: &str, tool: &str, arguments: &Value) -> Value {
        self.call(id, tool, arguments);
        self.answer(id)["result"].clone()
    }

    /// Returns all remaining lines until stdout of Mendline ends.
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

    /// Closes stdin and returns the complete log. Only the complete log can show what was never logged.
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

    /// Waits for Mendline to exit and returns its exit code.
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

/// Returns the facts of a call that Mendline itself answered.
pub(crate) fn failure(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    &result["_meta"]["dev.mendline/failure"]
}

/// Returns the lines of a stream, read as they arrive.
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

/// Waits until the condition holds, and panics if it does not hold in time.
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
