//! A client without an SDK: it writes lines to a real `mendline run` and reads lines, with many concurrent calls.
//!
//! The official clients hide what a test of many calls needs: when each call was sent and answered, and that no other
//! message came.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::processes::eventually;

/// `mendline run` and its client.
#[derive(Debug)]
pub struct Caller {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
    log: PathBuf,
}

impl Caller {
    /// Starts a command with pipes. Its log goes to a file, so that no pipe can fill up.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot be started.
    pub fn start(command: &[OsString], environment: &[(&str, OsString)], log: &Path) -> Result<Self, String> {
        let [program, args @ ..] = command else { return Err("no command".into()) };
        let file = File::create(log).map_err(|why| format!("{}: {why}", log.display()))?;
        let mut process = Command::new(program)
            .args(args)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|why| format!("{}: {why}", program.display()))?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().ok_or("no stdout")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        Ok(Self { process, stdin, lines, log: log.to_owned() })
    }

    /// Performs the legacy handshake and lists the tools, so that Mendline knows which tools only read.
    ///
    /// # Errors
    ///
    /// Fails if an answer does not arrive in time.
    pub fn initialize(&mut self, within: Duration) -> Result<(), String> {
        let who = json!({ "name": "caller", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
        self.request("handshake", "initialize", &hello)?;
        self.answer("handshake", within)?;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        self.request("list", "tools/list", &json!({}))?;
        let list = self.answer("list", within)?;
        if list["result"]["tools"].is_array() { Ok(()) } else { Err(format!("no list: {list}")) }
    }

    /// Calls a tool.
    ///
    /// # Errors
    ///
    /// Fails if Mendline has closed its stdin.
    pub fn call(&mut self, id: &str, tool: &str, arguments: &Value) -> Result<(), String> {
        self.request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// As [`Self::call`].
    pub fn request(&mut self, id: &str, method: &str, params: &Value) -> Result<(), String> {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// As [`Self::call`].
    pub fn send(&mut self, message: &Value) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("stdin is closed")?;
        stdin.write_all(format!("{message}\n").as_bytes()).map_err(|why| format!("{why}; log:\n{}", self.log()))
    }

    /// Returns the next message and its time of arrival.
    ///
    /// # Errors
    ///
    /// Fails if no message arrives in time, or if it is not JSON.
    pub fn next(&mut self, within: Duration) -> Result<(Instant, Value), String> {
        let (at, line) = self.lines.recv_timeout(within).map_err(|why| format!("{why}; log:\n{}", self.log()))?;
        Ok((at, serde_json::from_str(&line).map_err(|why| format!("{line:?}: {why}"))?))
    }

    /// Returns the answer to this request and skips every message before it.
    ///
    /// # Errors
    ///
    /// As [`Self::next`].
    pub fn answer(&mut self, id: &str, within: Duration) -> Result<Value, String> {
        let deadline = Instant::now() + within;
        loop {
            let (_, message) = self.next(deadline.saturating_duration_since(Instant::now()))?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }

    /// Returns the pid of Mendline.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends its stdin.
    pub fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    /// Returns whether the process exits in time.
    pub fn has_exited(&mut self, within: Duration) -> bool {
        eventually(within, || !matches!(self.process.try_wait(), Ok(None)))
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // The end of stdin ends Mendline. It is killed if it does not exit.
        self.close_stdin();
        if !self.has_exited(Duration::from_secs(5)) {
            self.kill();
        }
    }
}
