//! A client at the stdin and stdout of a real `mendline run`, which notes the time of every request and answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::observed::{Answer, Call, Kind};

/// The time that Mendline has to end after its client has left.
const EXIT_LIMIT: Duration = Duration::from_secs(20);

/// The time for everything that must work before the fault, on a busy machine.
pub(crate) const WARM_UP: Duration = Duration::from_secs(40);

/// The time that Mendline has to read a line.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The interval of the calls of an agent.
const AGENT_INTERVAL: Duration = Duration::from_millis(300);

/// Of so many calls of an agent one is unsafe.
const AGENT_UNSAFE: usize = 5;

/// Variables of the machine that a run must not see.
const PROXY_VARIABLES: [&str; 8] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

/// `mendline run` and its client.
pub(crate) struct Client {
    process: Child,
    stdin: Option<ChildStdin>,
    epoch: Instant,
    /// The first word of all ids, so that no two clients of a cell share a key.
    name: &'static str,
    received: Arc<Received>,
    reader: JoinHandle<()>,
    sent: Vec<Sent>,
}

struct Sent {
    id: String,
    kind: Kind,
    at: Duration,
    /// True if the call was in flight when the outage began.
    in_flight: bool,
}

/// Everything that Mendline has written.
struct Received {
    answers: Mutex<BTreeMap<String, Vec<Answer>>>,
    list_changes: AtomicUsize,
    changed: watch::Sender<()>,
}

/// The end of a conversation.
pub(crate) struct Ended {
    pub(crate) calls: Vec<Call>,
    /// Ids of answers that no request had.
    pub(crate) strays: Vec<String>,
    /// The exit code, or `None` if Mendline did not end in time.
    pub(crate) exit_code: Option<i32>,
    /// Notifications that a list has changed.
    pub(crate) list_changes: usize,
}

impl Client {
    /// Starts `mendline run` with these arguments. State, sockets, logs and stderr go to the folder.
    pub(crate) fn start(
        mendline: &Path,
        arguments: &[String],
        folder: &Path,
        environment: &[(&str, String)],
        epoch: Instant,
    ) -> Result<Client, String> {
        let failed = |why: std::io::Error| format!("cannot start {}: {why}", mendline.display());
        let log = File::options().create(true).append(true).open(folder.join("stderr.txt")).map_err(failed)?;
        let mut command = Command::new(mendline);
        command.arg("run").args(arguments).current_dir(folder);
        for variable in PROXY_VARIABLES {
            command.env_remove(variable);
        }
        command
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", folder.join("config"))
            .env("XDG_STATE_HOME", folder.join("state"))
            .env("XDG_RUNTIME_DIR", folder)
            .env("MENDLINE_STATE_DIR", folder.join("state"))
            .env("MENDLINE_RUNTIME_DIR", folder.join("run"))
            .env_remove("MENDLINE_LOG_FILES")
            .env("MENDLINE_LOG", "debug")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let mut process = command.spawn().map_err(failed)?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().ok_or("mendline has no stdout")?;
        let received = Arc::new(Received {
            answers: Mutex::default(),
            list_changes: AtomicUsize::new(0),
            changed: watch::channel(()).0,
        });
        let shared = Arc::clone(&received);
        let reader = tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                shared.take(&line, epoch.elapsed());
            }
        });
        Ok(Client { process, stdin, epoch, name: "", received, reader, sent: Vec::new() })
    }

    /// Returns this client with another first word of its ids.
    pub(crate) fn named(self, name: &'static str) -> Client {
        Client { name, ..self }
    }

    /// Does everything once, before the server fails: handshake, list, read.
    pub(crate) async fn warm_up(&mut self) -> Result<(), String> {
        let until = Instant::now() + WARM_UP;
        for step in ["initialize", "tools/list", "lookup"] {
            let id = match step {
                "initialize" => self.initialize().await,
                "tools/list" => self.list().await,
                _ => self.read(None).await,
            };
            match self.answer(&id, until).await {
                Some(answer) if answer.is_success() => {}
                Some(answer) => return Err(format!("before the fault, {step}: {answer}")),
                None => return Err(format!("before the fault, {step}: no answer within {WARM_UP:?}")),
            }
            if step == "initialize" {
                self.initialized().await;
            }
        }
        Ok(())
    }

    /// Sends `initialize` and returns its id.
    pub(crate) async fn initialize(&mut self) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "outages", "version": "1" },
        });
        self.request(Kind::Initialize, "initialize", &params).await
    }

    pub(crate) async fn initialized(&mut self) {
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    pub(crate) async fn list(&mut self) -> String {
        self.request(Kind::List, "tools/list", &json!({})).await
    }

    /// Calls a tool that only reads and returns the id, which is also the key of the execution.
    pub(crate) async fn read(&mut self, until: Option<&Path>) -> String {
        self.call(Kind::Read, "lookup", until).await
    }

    /// Calls a tool that writes.
    pub(crate) async fn write_note(&mut self, until: Option<&Path>) -> String {
        self.call(Kind::Unsafe, "create_note", until).await
    }

    /// Calls in a fixed interval, without waiting for answers, as an agent does.
    pub(crate) async fn call_like_agent(&mut self, until: Instant) {
        let mut at = Instant::now();
        let mut number = 0;
        while at < until {
            sleep_until(at).await;
            number += 1;
            if number % AGENT_UNSAFE == 0 {
                self.write_note(None).await;
            } else {
                self.read(None).await;
            }
            at += AGENT_INTERVAL;
        }
    }

    async fn call(&mut self, kind: Kind, tool: &str, until: Option<&Path>) -> String {
        let key = self.next_id(kind);
        let mut arguments = json!({ "key": key });
        if let Some(until) = until {
            arguments["until"] = until.to_string_lossy().into();
        }
        self.request(kind, "tools/call", &json!({ "name": tool, "arguments": arguments })).await
    }

    pub(crate) async fn request(&mut self, kind: Kind, method: &str, params: &Value) -> String {
        let id = self.next_id(kind);
        self.sent.push(Sent { id: id.clone(), kind, at: self.epoch.elapsed(), in_flight: false });
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    fn next_id(&self, kind: Kind) -> String {
        format!("{}{}{}", self.name, kind.prefix(), self.sent.len() + 1)
    }

    /// Marks every unanswered call as in flight.
    pub(crate) fn mark_in_flight(&mut self) {
        let answers = self.received.answers();
        for sent in &mut self.sent {
            sent.in_flight |= !answers.contains_key(&sent.id);
        }
    }

    /// A broken or full pipe is seen as requests without answers.
    async fn write(&mut self, message: &Value) {
        if let Some(stdin) = &mut self.stdin {
            let line = format!("{message}\n");
            let _ = timeout(WRITE_LIMIT, stdin.write_all(line.as_bytes())).await;
        }
    }

    /// Waits for the answer to a request, until this time at the latest.
    pub(crate) async fn answer(&self, id: &str, until: Instant) -> Option<Answer> {
        let mut changed = self.received.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(answer) = self.received.answers().get(id).and_then(|answers| answers.first()) {
                return Some(answer.clone());
            }
            timeout_at(until, changed.changed()).await.ok()?.ok()?;
        }
    }

    /// Waits until every request is answered. Returns at the given time at the latest.
    pub(crate) async fn settle(&self, until: Instant) {
        for sent in &self.sent {
            if self.answer(&sent.id, until).await.is_none() {
                return;
            }
        }
    }

    /// Closes stdin, waits for the end of Mendline and returns the conversation.
    pub(crate) async fn end(mut self) -> Ended {
        self.stdin = None;
        let deadline = Instant::now() + EXIT_LIMIT;
        let exit_code = match timeout_at(deadline, self.process.wait()).await {
            Ok(Ok(status)) => Some(status.code().unwrap_or(-1)),
            _ => None,
        };
        if exit_code.is_none() {
            // Only the process that this client has started.
            let _ = self.process.kill().await;
        }
        // The pipe ends with the process.
        let _ = timeout_at(Instant::now() + EXIT_LIMIT, self.reader).await;
        let mut answers = std::mem::take(&mut *self.received.answers());
        let known: BTreeSet<&str> = self.sent.iter().map(|sent| sent.id.as_str()).collect();
        let strays = answers.keys().filter(|id| !known.contains(id.as_str())).cloned().collect();
        let calls = self.sent.iter().map(|sent| Call {
            id: sent.id.clone(),
            kind: sent.kind,
            sent: sent.at,
            in_flight: sent.in_flight,
            answers: answers.remove(&sent.id).unwrap_or_default(),
        });
        let list_changes = self.received.list_changes.load(Ordering::Relaxed);
        Ended { calls: calls.collect(), strays, exit_code, list_changes }
    }
}

impl Received {
    fn take(&self, line: &str, at: Duration) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let is_answer = message.get("result").is_some() || message.get("error").is_some();
        if message["method"].as_str().is_some_and(|method| method.ends_with("/list_changed")) {
            self.list_changes.fetch_add(1, Ordering::Relaxed);
        }
        // Other notifications and pings of the server are of no interest; a line that is not JSON is an answer to nothing.
        if is_answer || message.is_null() {
            let id = message["id"].as_str().map_or_else(|| message["id"].to_string(), str::to_owned);
            self.answers().entry(id).or_default().push(Answer::read(line, &message, at));
            self.changed.send_replace(());
        }
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Answer>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
