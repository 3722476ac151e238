//! Counts of what the server really did.
//!
//! Everything is counted where it happens and can be read at any time as one value, so that a test can assert
//! "`create_note` ran once for this key" independently of what the client was told. [`Oracle::until`] waits for a
//! count, so that tests do not sleep.

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

/// The number of requests that are kept one by one.
const REMEMBERED: usize = 10_000;

/// All counts of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// TLS handshakes that clients started.
    pub handshakes: u64,
    /// TLS handshakes that failed: the client rejected the certificate or left.
    pub handshakes_failed: u64,
    /// Connections that were accepted, after the TLS handshake if there is one.
    pub connections: u64,
    /// Connections that are open now.
    pub open_connections: u64,
    /// The largest number of connections that were open at the same time.
    pub most_open_connections: u64,
    /// Bytes read from sockets, after decryption.
    pub bytes_in: u64,
    /// Bytes written to sockets, before encryption.
    pub bytes_out: u64,
    /// POST requests that arrived completely.
    pub posts: u64,
    /// GET requests, including those that resume a stream.
    pub gets: u64,
    /// GET requests with a `Last-Event-ID`.
    pub resumes: u64,
    /// DELETE requests.
    pub deletes: u64,
    /// Requests whose body did not arrive completely.
    pub cut_requests: u64,
    /// JSON-RPC messages by method. Responses of the client count as `response`, invalid messages as `unreadable`.
    pub messages: BTreeMap<String, u64>,
    /// Executions of tools by their `key` argument.
    pub executions: BTreeMap<String, u64>,
    /// Executions by tool.
    pub tools: BTreeMap<String, u64>,
    /// Sessions that were opened.
    pub sessions_opened: u64,
    /// Sessions that are open now.
    pub open_sessions: u64,
    /// Sessions that the client deleted.
    pub sessions_deleted: u64,
    /// Requests that the protocol's own checks refused, without a fault.
    pub refusals: u64,
    /// Calls that were cancelled while they ran, by the mechanism of their era.
    pub cancellations: u64,
    /// Responses that the client closed before their end.
    pub closed_mid_call: u64,
    /// `subscriptions/listen` streams that were opened.
    pub listens_opened: u64,
    /// `subscriptions/listen` streams that the client closed.
    pub listens_closed: u64,
    /// Requests that the server sent to clients.
    pub server_requests: u64,
    /// Requests to clients that were answered.
    pub server_requests_answered: u64,
    /// The number of times each fault was injected.
    pub struck: BTreeMap<String, u64>,
    /// Requests that arrived at the foreign origin.
    pub elsewhere: Vec<ForeignRequest>,
}

impl Counts {
    /// Returns the number of executions with this `key`.
    pub fn executions_of(&self, key: &str) -> u64 {
        self.executions.get(key).copied().unwrap_or(0)
    }

    /// Returns the number of messages of this method.
    pub fn messages_of(&self, method: &str) -> u64 {
        self.messages.get(method).copied().unwrap_or(0)
    }

    /// Returns the number of times this fault was injected.
    pub fn struck_by(&self, fault: &str) -> u64 {
        self.struck.get(fault).copied().unwrap_or(0)
    }
}

/// A request that arrived at the foreign origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignRequest {
    /// GET, POST, …
    pub verb: String,
    /// The path.
    pub path: String,
    /// True if it carried an `Authorization` or a `Cookie`.
    pub credentials: bool,
    /// True if it carried a session id.
    pub session: bool,
    /// The length of its body.
    pub bytes: usize,
}

/// One received request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// GET, POST or DELETE.
    pub verb: String,
    /// The path.
    pub path: String,
    /// True if it came over HTTP/2.
    pub http2: bool,
    /// The number of its connection, from 1.
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
    /// The fault that was injected.
    pub fault: Option<&'static str>,
}

/// Counters that wake tasks waiting for a count.
#[derive(Debug)]
pub struct Oracle {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
    /// The file to which executions are appended, for tests that kill the process.
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

    /// Appends every execution to this file before anything else is done: one line `executed TOOL KEY PID`, as the
    /// demonstration server does, so that a restarted server can append to the same file.
    pub(crate) fn keep_ledger(&self, path: &Path) -> std::io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        // The first file wins.
        let _ = self.ledger.set(file);
        Ok(())
    }

    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        self.inner().counts.clone()
    }

    /// Returns the last requests in order, at most ten thousand.
    pub fn seen(&self) -> Vec<Seen> {
        self.inner().seen.iter().cloned().collect()
    }

    /// Resets the counts. Open connections and open sessions stay counted.
    pub fn reset(&self) {
        self.record(|counts| {
            let Counts { open_connections, open_sessions, .. } = *counts;
            *counts = Counts { open_connections, open_sessions, ..Counts::default() };
        });
        self.inner().seen.clear();
    }

    /// Waits until the counts meet the condition. Returns the counts: `Ok` when they do, `Err` at the timeout.
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

    /// Updates the counts.
    pub(crate) fn record(&self, what: impl FnOnce(&mut Counts)) {
        what(&mut self.inner().counts);
        self.changed.send_replace(());
    }

    /// Records a complete request and the fault that will answer it.
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

    /// Records an execution.
    pub(crate) fn executed(&self, tool: &str, key: &str) {
        if let Some(mut ledger) = self.ledger.get() {
            let line = format!("executed {tool} {key} {}\n", std::process::id());
            // If the disk is full, the line is missing from the ledger.
            let _ = ledger.write_all(line.as_bytes());
        }
        self.record(|counts| {
            *counts.executions.entry(key.to_owned()).or_default() += 1;
            *counts.tools.entry(tool.to_owned()).or_default() += 1;
        });
    }

    /// Counting continues after a panic in another thread.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn until_returns_when_the_count_is_reached() {
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
