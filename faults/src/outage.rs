//! Outages: the whole server is unavailable for a time, in one form.
//!
//! A [`Rule`](crate::Rule) answers single requests; an outage meets every connection and every request from its
//! beginning to its end, also those that are in flight when it begins. The [`Timeline`] has the time of every accepted
//! connection and of every request, so that a test can compare them with the limits of a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{LOCATION, RETRY_AFTER};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::server::reply::Reply;
use crate::server::state::ServerState;
use crate::{Ending, HttpRequest};

/// The time for which a socket is still read after its last byte was written, so that the client can read that byte.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A fatal TLS alert: internal error.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 80];

/// The number of connections and requests that are kept.
const KEPT: usize = 100_000;

/// The form of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Outage {
    /// Open connections end with a FIN, new ones are refused.
    Refused,
    /// All connections end in this way, new ones as soon as they are accepted.
    Cut(Ending),
    /// A connection ends in this way once a request was read, instead of the answer. The tool runs.
    CutAfterRequest(Ending),
    /// Open connections and those that are accepted meanwhile are silent for good.
    Silence,
    /// Open connections end with a FIN; new ones get a fatal alert instead of a TLS handshake.
    TlsAlert,
    /// Every request is answered with this status and a page. After 500 and 504 the tool has run.
    Page {
        /// The status. 307 leads to a page of the foreign origin.
        status: u16,
        /// The `Retry-After` in seconds.
        retry_after: Option<u64>,
    },
}

impl Outage {
    /// Returns whether the tool runs although the client gets no answer of it.
    pub fn runs_tools(&self) -> bool {
        matches!(self, Outage::CutAfterRequest(_) | Outage::Page { status: 500 | 504, .. })
    }

    /// Treats a new connection. Returns it if it can be served.
    pub(crate) async fn meet(outage: Option<Outage>, mut stream: TcpStream) -> Option<TcpStream> {
        match outage {
            Some(Outage::Cut(Ending::Reset)) => {
                // Without the option the end is a FIN, which is a defect of the machine, not of the client.
                let _ = stream.set_zero_linger();
                None
            }
            Some(Outage::Refused | Outage::Cut(Ending::Fin)) => {
                finish(stream).await;
                None
            }
            Some(Outage::Silence) => {
                // The task, and with it the connection, ends with the server.
                let _kept = stream;
                std::future::pending().await
            }
            Some(Outage::TlsAlert) => {
                // The alert answers the ClientHello.
                let mut hello = [0; 8192];
                let _ = stream.read(&mut hello).await;
                let _ = stream.write_all(&ALERT).await;
                finish(stream).await;
                None
            }
            Some(Outage::CutAfterRequest(_) | Outage::Page { .. }) | None => Some(stream),
        }
    }

    /// Answers a request. Connections that the outage ends or silences get no answer.
    pub(crate) async fn answer(&self, state: &ServerState) -> Reply {
        match self {
            Outage::CutAfterRequest(ending) => Reply::Cut(*ending),
            Outage::Page { status, retry_after } => self.page(state, *status, *retry_after),
            Outage::Refused | Outage::Cut(_) | Outage::Silence | Outage::TlsAlert => std::future::pending().await,
        }
    }

    fn page(&self, state: &ServerState, status: u16, retry_after: Option<u64>) -> Reply {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let title = match status {
            StatusCode::OK => "We will be back soon".to_owned(),
            _ => status.to_string(),
        };
        let text = format!("<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>");
        let mut reply = Reply::whole(status, Some("text/html"), Bytes::from(text));
        if let Some(seconds) = retry_after {
            reply = reply.with(RETRY_AFTER, &seconds.to_string());
        }
        if status == StatusCode::TEMPORARY_REDIRECT {
            reply = reply.with(LOCATION, &format!("http://{}/login", state.elsewhere));
        }
        reply
    }
}

/// Ends a connection with a FIN. Unread bytes would turn it into a reset.
async fn finish(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut ignored = [0; 8192];
    let drained = async { while stream.read(&mut ignored).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(DRAIN_TIMEOUT, drained).await;
}

/// The times at which connections and requests arrived.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Accepted connections. Refused ones cannot be seen.
    pub connections: Vec<Instant>,
    /// Complete requests.
    pub requests: Vec<Arrival>,
}

/// A request that arrived completely.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The time of its last byte.
    pub at: Instant,
    /// GET, POST or DELETE.
    pub verb: String,
    /// The JSON-RPC method, `response`, or `unreadable`.
    pub method: String,
    /// The `key` argument of a call.
    pub key: Option<String>,
    /// True if the outage had begun and not ended.
    pub met_outage: bool,
}

/// The outage of a server and its timeline.
#[derive(Debug)]
pub(crate) struct OutageState {
    current: watch::Sender<Option<Outage>>,
    /// True if calls wait for the next outage instead of running.
    holds_calls: AtomicBool,
    timeline: Mutex<Timeline>,
}

impl OutageState {
    pub(crate) fn new() -> OutageState {
        OutageState { current: watch::channel(None).0, holds_calls: AtomicBool::new(false), timeline: Mutex::default() }
    }

    pub(crate) fn set(&self, outage: Option<Outage>) {
        self.current.send_replace(outage);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Option<Outage>> {
        self.current.subscribe()
    }

    pub(crate) fn hold_calls(&self, holds: bool) {
        self.holds_calls.store(holds, Ordering::Relaxed);
    }

    pub(crate) fn timeline(&self) -> Timeline {
        self.kept().clone()
    }

    pub(crate) fn accepted(&self) {
        let mut kept = self.kept();
        if kept.connections.len() < KEPT {
            kept.connections.push(Instant::now());
        }
    }

    /// Answers a request: by the server, or by the outage that is there or begins before the answer.
    pub(crate) async fn answer(&self, state: &Arc<ServerState>, request: HttpRequest) -> Reply {
        let mut current = self.watch();
        let now = *current.borrow_and_update();
        self.arrived(&request, now.is_some());
        let outage = match now {
            Some(outage) => {
                if outage.runs_tools() && request.is_call() {
                    let shared = Arc::clone(state);
                    state.spawn(async move { drop(shared.answer(request).await) });
                }
                outage
            }
            None => {
                let is_held = request.is_call() && self.holds_calls.load(Ordering::Relaxed);
                let served = async {
                    if is_held {
                        std::future::pending::<()>().await;
                    }
                    state.answer(request).await
                };
                tokio::select! {
                    biased;
                    outage = begun(&mut current) => outage,
                    reply = served => return reply,
                }
            }
        };
        outage.answer(state).await
    }

    fn arrived(&self, request: &HttpRequest, met_outage: bool) {
        let key = request.params()["arguments"]["key"].as_str().map(str::to_owned);
        let (verb, method) = (request.verb.to_string(), request.what());
        let mut kept = self.kept();
        if kept.requests.len() < KEPT {
            kept.requests.push(Arrival { at: Instant::now(), verb, method, key, met_outage });
        }
    }

    /// Recording continues after a panic in another thread.
    fn kept(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the beginning of an outage.
async fn begun(current: &mut watch::Receiver<Option<Outage>>) -> Outage {
    match current.wait_for(Option::is_some).await.map(|outage| *outage) {
        Ok(Some(outage)) => outage,
        // The server is gone, and all its tasks with it.
        _ => std::future::pending().await,
    }
}
