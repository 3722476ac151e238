//! A conversation of a check: the handshake, the lists, and calls, with every message that came.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::caller::Caller;

/// The deadline of an answer, on a busy machine and with a server that starts slowly.
const PATIENCE: Duration = Duration::from_secs(90);

/// The deadline for a direct server to exit after the end of its stdin.
const EXIT: Duration = Duration::from_millis(500);

/// The deadline for Mendline to exit after the end of its stdin, which includes the shutdown of its server.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// The limit of pages of a list.
const PAGES: usize = 50;

/// The lists, and the capability that announces each of them.
const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resources"),
    ("prompts/list", "prompts"),
];

/// A conversation.
#[derive(Debug)]
pub struct Session {
    caller: Caller,
    /// The number of answers by id.
    answers: BTreeMap<String, usize>,
    /// The answers that were read while the session waited for others.
    early: BTreeMap<String, Value>,
    /// The progress tokens of notifications.
    progress: Vec<Value>,
}

impl Session {
    /// Starts a command in a folder.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot be started.
    pub fn start(
        command: &[OsString],
        environment: &[(String, OsString)],
        folder: &Path,
        log: &str,
    ) -> Result<Self, String> {
        let mut within: Vec<OsString> = vec!["env".into(), "-C".into(), folder.into()];
        within.extend(command.iter().cloned());
        let environment: Vec<(&str, OsString)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let caller = Caller::start(&within, &environment, &folder.join(log))?;
        Ok(Self { caller, answers: BTreeMap::new(), early: BTreeMap::new(), progress: Vec::new() })
    }

    /// Performs the handshake and returns its answer.
    ///
    /// # Errors
    ///
    /// Fails if there is no answer, or an error.
    pub fn initialize(&mut self) -> Result<Value, String> {
        let who = json!({ "name": "zoo", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
        self.request("initialize", "initialize", &hello)?;
        let answer = self.answer("initialize")?;
        if answer["result"].is_null() {
            return Err(format!("initialize: {answer}"));
        }
        self.caller.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(answer)
    }

    /// Reads the lists that the handshake announces, all pages of each.
    ///
    /// # Errors
    ///
    /// Fails if an answer does not come in time, or a list has no end.
    pub fn lists(&mut self, handshake: &Value) -> Result<Vec<(String, Value)>, String> {
        let capabilities = &handshake["result"]["capabilities"];
        let announced = LISTS.iter().filter(|(_, capability)| !capabilities[capability].is_null());
        announced.map(|(method, _)| Ok(((*method).to_owned(), self.list(method)?))).collect()
    }

    /// Reads all pages of a list.
    ///
    /// # Errors
    ///
    /// As [`Self::lists`].
    pub fn list(&mut self, method: &str) -> Result<Value, String> {
        let mut pages = Vec::new();
        let mut params = json!({});
        while pages.len() < PAGES {
            let id = format!("{method} {}", pages.len());
            self.request(&id, method, &params)?;
            let answer = self.answer(&id)?;
            let cursor = answer["result"]["nextCursor"].clone();
            pages.push(answer);
            if cursor.is_null() {
                return Ok(Value::Array(pages));
            }
            params = json!({ "cursor": cursor });
        }
        Err(format!("{method} has more than {PAGES} pages"))
    }

    /// Calls a tool, with the id as progress token if progress is wanted.
    ///
    /// # Errors
    ///
    /// Fails if the command has closed its stdin.
    pub fn call(&mut self, id: &str, tool: &str, arguments: &Value, progress: bool) -> Result<(), String> {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if progress {
            params["_meta"] = json!({ "progressToken": id });
        }
        self.request(id, "tools/call", &params)
    }

    fn request(&mut self, id: &str, method: &str, params: &Value) -> Result<(), String> {
        self.caller.request(id, method, params)
    }

    /// Returns the answer to this request.
    ///
    /// # Errors
    ///
    /// Fails if it does not come in time, or a line is not a message.
    pub fn answer(&mut self, id: &str) -> Result<Value, String> {
        let deadline = Instant::now() + PATIENCE;
        while !self.early.contains_key(id) {
            self.read(deadline).map_err(|why| format!("no answer to {id}: {why}"))?;
        }
        self.early.remove(id).ok_or_else(|| format!("no answer to {id}"))
    }

    /// Waits for progress of the call with this id.
    ///
    /// # Errors
    ///
    /// Fails if it does not come in time, or the call is answered before.
    pub fn wait_for_progress(&mut self, id: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !self.progress.iter().any(|token| token == id) {
            if self.answers.contains_key(id) {
                return Err(format!("{id} was answered before it reported progress"));
            }
            self.read(deadline).map_err(|why| format!("no progress of {id}: {why}"))?;
        }
        Ok(())
    }

    /// Reads one message. A request of the server is refused, except for pings.
    fn read(&mut self, deadline: Instant) -> Result<(), String> {
        let (_, message) = self.caller.next(deadline.saturating_duration_since(Instant::now()))?;
        match (message["method"].as_str(), &message["id"]) {
            (Some("notifications/progress"), _) => self.progress.push(message["params"]["progressToken"].clone()),
            (Some("ping"), id) => self.caller.send(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))?,
            (Some(method), id) if !id.is_null() => {
                let error = json!({ "code": -32601, "message": format!("the client does not have {method}") });
                self.caller.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))?;
            }
            (Some(_), _) => {}
            (None, Value::String(id)) => {
                *self.answers.entry(id.clone()).or_default() += 1;
                self.early.insert(id.clone(), message);
            }
            (None, _) => return Err(format!("an answer to no request: {message}")),
        }
        Ok(())
    }

    /// Ends Mendline by the end of its stdin, and checks that every request had exactly one answer.
    ///
    /// # Errors
    ///
    /// Fails if a request had two answers, or Mendline does not exit.
    pub fn finish(mut self) -> Result<(), String> {
        self.caller.close_stdin();
        let deadline = Instant::now() + SHUTDOWN;
        // The messages that were not read yet; their end is that of the process.
        while self.read(deadline).is_ok() {}
        if !self.caller.has_exited(SHUTDOWN) {
            return Err("Mendline did not exit after the end of its stdin".into());
        }
        match self.answers.iter().find(|(_, times)| **times != 1) {
            Some((id, times)) => Err(format!("{id} was answered {times} times")),
            None => Ok(()),
        }
    }

    /// Ends a direct server: by the end of its stdin, and by a signal if it does not exit.
    pub fn end_direct(mut self) {
        self.caller.close_stdin();
        if !self.caller.has_exited(EXIT) {
            self.caller.kill();
        }
    }

    /// Returns the pid of the command.
    pub fn id(&self) -> i32 {
        i32::try_from(self.caller.id()).unwrap_or_default()
    }

    /// Returns the last lines of its stderr.
    pub fn stderr_tail(&self) -> String {
        let log = self.caller.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}
