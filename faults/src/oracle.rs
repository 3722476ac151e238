//! What really happened at the server.
//!
//! A client is told things; the oracle knows them. Everything is counted where it happens and can be read at any time as
//! one value, so that a test may say "`create_note` ran once for this key" and be right. [`Oracle::until`] waits for a
//! count instead of sleeping.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::HttpRequest;

/// The last so many requests are remembered one by one.
const REMEMBERED: usize = 10_000;

/// Everything that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Clients that came to a secure server and began to shake hands.
    pub handshakes: u64,
    /// Those of them that it came to nothing with: they did not believe the server, or left.
    pub handshakes_failed: u64,
    /// Connections that were accepted, and are secure where they should be.
    pub connections: u64,
    /// Those of them that are open now.
    pub open_connections: u64,
    /// The most that were open at a time.
    pub most_open_connections: u64,
    /// Bytes that were read from sockets, decrypted where TLS is.
    pub bytes_in: u64,
    /// Bytes that sockets accepted.
    pub bytes_out: u64,
    /// POST requests that arrived whole.
    pub posts: u64,
    /// GET requests, resuming or not.
    pub gets: u64,
    /// GET requests with a `Last-Event-ID`.
    pub resumes: u64,
    /// DELETE requests.
    pub deletes: u64,
    /// Requests whose body never arrived whole.
    pub cut_requests: u64,
    /// JSON-RPC messages by method; answers of the client count as `response`, what cannot be read as `unreadable`.
    pub messages: BTreeMap<String, u64>,
    /// How often a tool ran, by its `key` argument.
    pub executions: BTreeMap<String, u64>,
    /// How often each tool ran.
    pub tools: BTreeMap<String, u64>,
    /// Sessions that were opened.
    pub sessions_opened: u64,
    /// Those of them that the server knows now.
    pub open_sessions: u64,
    /// Sessions that their client ended.
    pub sessions_deleted: u64,
    /// Requests that were refused by the protocol's own rules, without any fault.
    pub refusals: u64,
    /// Calls that were cancelled while they ran, in the way of their era.
    pub cancellations: u64,
    /// Responses that the client did not wait for to the end.
    pub closed_mid_call: u64,
    /// `subscriptions/listen` streams that were opened.
    pub listens_opened: u64,
    /// Those of them that the client closed.
    pub listens_closed: u64,
    /// Questions that were put to clients.
    pub server_requests: u64,
    /// Those of them that were answered.
    pub server_requests_answered: u64,
    /// How often each fault struck.
    pub struck: BTreeMap<String, u64>,
    /// What arrived at the other origin, where nothing belongs.
    pub elsewhere: Vec<ForeignRequest>,
}

impl Counts {
    /// How often a tool ran with this `key`.
    pub fn executions_of(&self, key: &str) -> u64 {
        self.executions.get(key).copied().unwrap_or(0)
    }

    /// How many messages of this method came.
    pub fn messages_of(&self, method: &str) -> u64 {
        self.messages.get(method).copied().unwrap_or(0)
    }

    /// How often this fault struck.
    pub fn struck_by(&self, fault: &str) -> u64 {
        self.struck.get(fault).copied().unwrap_or(0)
    }
}

/// A request that came to the origin where nothing belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignRequest {
    /// GET, POST, …
    pub verb: String,
    /// The path.
    pub path: String,
    /// It carried an `Authorization` or a `Cookie`.
    pub credentials: bool,
    /// It carried a session id.
    pub session: bool,
    /// How long its body was.
    pub bytes: usize,
}

/// One request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// GET, POST or DELETE.
    pub verb: String,
    /// The path.
    pub path: String,
    /// It came over HTTP/2.
    pub http2: bool,
    /// Which connection it came on, counted from 1.
    pub connection: u64,
    /// The JSON-RPC method, if it is a request or a notification.
    pub method: Option<String>,
    /// The JSON text of the id.
    pub id: Option<String>,
    /// `Mcp-Session-Id`.
    pub session: Option<String>,
    /// `MCP-Protocol-Version`.
    pub revision: Option<String>,
    /// `Mcp-Method`.
    pub named_method: Option<String>,
    /// `Mcp-Name`.
    pub named: Option<String>,
    /// `Last-Event-ID`.
    pub last_event_id: Option<String>,
    /// The fault that it met.
    pub fault: Option<&'static str>,
}

/// Counts, and wakes who waits for a count.
#[derive(Debug)]
pub struct Oracle {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
    /// Where executions are written down as well, for those who want to know them after the process was killed.
    ledger: OnceLock<File>,
}

#[derive(Debug, Default)]
struct Inner {
    counts: Counts,
    seen: VecDeque<Seen>,
}

impl Oracle {
    pub(crate) fn new() -> Oracle {
        Oracle { inner: Mutex::default(), changed: watch::channel(()).0, ledger: OnceLock::new() }
    }

    /// Writes every execution to the end of this file too, before anything else is done about it: one line
    /// `executed TOOL KEY PID`, as the demonstration server does, so that several lives of a server share one file.
    pub(crate) fn keep_ledger(&self, path: &Path) -> std::io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        // Whoever named a file first has it.
        let _ = self.ledger.set(file);
        Ok(())
    }

    /// All counts as they are now.
    pub fn counts(&self) -> Counts {
        self.inner().counts.clone()
    }

    /// The last requests in the order in which they came, at most ten thousand.
    pub fn seen(&self) -> Vec<Seen> {
        self.inner().seen.iter().cloned().collect()
    }

    /// Begins to count anew. Connections and sessions that are open stay counted as such.
    pub fn reset(&self) {
        self.record(|counts| {
            let Counts { open_connections, open_sessions, .. } = *counts;
            *counts = Counts { open_connections, open_sessions, ..Counts::default() };
        });
        self.inner().seen.clear();
    }

    /// Waits until the counts are as they should be. Gives back the counts either way: `Err` when they were not so in time.
    pub async fn until(&self, timeout: Duration, condition: impl Fn(&Counts) -> bool) -> Result<Counts, Counts> {
        let deadline = Instant::now() + timeout;
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let counts = self.counts();
            if condition(&counts) {
                return Ok(counts);
            }
            if timeout_at(deadline, changed.changed()).await.is_err() {
                return Err(self.counts());
            }
        }
    }

    /// Writes something down.
    pub(crate) fn record(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.inner().counts);
        self.changed.send_replace(());
    }

    /// A request has arrived whole, and this fault will answer it.
    pub(crate) fn arrived(&self, request: &HttpRequest, fault: Option<&'static str>) {
        let mut inner = self.inner();
        let counts = &mut inner.counts;
        match request.verb.as_str() {
            "POST" => counts.posts += 1,
            "GET" => counts.gets += 1,
            "DELETE" => counts.deletes += 1,
            _ => {}
        }
        counts.resumes += u64::from(request.is_resume());
        if request.verb == http::Method::POST {
            *counts.messages.entry(request.what()).or_default() += 1;
        }
        if let Some(fault) = fault {
            *counts.struck.entry(fault.to_owned()).or_default() += 1;
        }
        if inner.seen.len() == REMEMBERED {
            inner.seen.pop_front();
        }
        inner.seen.push_back(request.seen(fault));
        drop(inner);
        self.changed.send_replace(());
    }

    /// A tool ran.
    pub(crate) fn executed(&self, tool: &str, key: &str) {
        if let Some(mut ledger) = self.ledger.get() {
            let line = format!("executed {tool} {key} {}\n", std::process::id());
            // Nothing to be done about a full disk; the reader of the ledger will miss the line.
            let _ = ledger.write_all(line.as_bytes());
        }
        self.record(|counts| {
            *counts.executions.entry(key.to_owned()).or_default() += 1;
            *counts.tools.entry(tool.to_owned()).or_default() += 1;
        });
    }

    /// Counting goes on whatever happened to a thread that was counting.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_count_is_waited_for_and_not_slept_for() {
        let oracle = Oracle::new();
        let wanted = oracle.until(Duration::from_secs(5), |counts| counts.executions_of("a") == 2);
        let doing = async {
            oracle.executed("lookup", "a");
            tokio::time::sleep(Duration::from_secs(1)).await;
            oracle.executed("lookup", "a");
        };
        let (counts, ()) = tokio::join!(wanted, doing);
        assert_eq!(counts.unwrap().tools["lookup"], 2);
        let missed = oracle.until(Duration::from_secs(5), |counts| counts.executions_of("b") > 0).await;
        assert_eq!(missed.unwrap_err().executions_of("a"), 2);
        oracle.reset();
        assert_eq!(oracle.counts(), Counts::default());
    }
}
