//! The pages of the gateway for its operator: whether it is ready, the status of its servers, and their events.
//!
//! A server is ready if a request to it can be expected to succeed: it runs, or the next request starts it. The facts
//! behind that are given each for itself, because a running process proves neither a session nor a successful call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use mendline_core::words::Cause;
use mendline_wire::{SseEncoder, SseEvent};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::response::{Answer, followed, json as json_answer, json_error, open_metrics, text};
use crate::control::message::Level;
use crate::control::snapshot::{Server, StateKind};
use crate::control::store::lock;
use crate::control::{SharedStatus, StreamItem};
use crate::metrics::{self, text::ProcessSamples};

/// The interval of comments on a stream without events.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// The state of the gateway as a whole.
#[derive(Default)]
pub(super) struct Operation {
    status: Option<SharedStatus>,
    is_draining: AtomicBool,
}

/// Tells whether the reader of a page may know of a server.
pub(super) type MayUse = Arc<dyn Fn(&str) -> bool + Send + Sync>;

impl Operation {
    pub(super) fn set_status(&mut self, status: SharedStatus) {
        self.status = Some(status);
    }

    /// Records that the process stops: it takes no new requests.
    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Returns the refusal of requests while the process stops.
    pub(super) fn refusal(&self) -> Option<Answer> {
        self.is_draining.load(Ordering::Relaxed).then(|| {
            let why = "the gateway is stopping; send the request again";
            let mut answer = json_error(StatusCode::SERVICE_UNAVAILABLE, Cause::Unavailable.code(), why, None);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            answer
        })
    }

    /// Answers whether the gateway takes requests.
    pub(super) fn ready(&self) -> Answer {
        match self.is_draining.load(Ordering::Relaxed) {
            true => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
            false => text(StatusCode::OK, "ready\n"),
        }
    }

    /// Answers whether a server can be used, with the facts.
    pub(super) fn ready_server(&self, name: &str) -> Answer {
        if self.is_draining.load(Ordering::Relaxed) {
            return self.ready();
        }
        let Some(server) = self.servers().into_iter().find(|server| server.name == name) else {
            return text(StatusCode::OK, "ready\n");
        };
        let is_ready = matches!(server.state.kind, StateKind::Ready | StateKind::Idle | StateKind::Starting);
        let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let page = json!({
            "server": server.name, "ready": is_ready, "state": server.state.kind, "why": server.state.why,
            "facts": server.facts, "sessions": server.sessions,
        });
        json_answer(status, Bytes::from(page.to_string()))
    }

    /// Answers with the status of the servers that the reader may use, in the format of `mendline status --json`.
    pub(super) fn status(&self, may_use: &MayUse) -> Answer {
        let Some(status) = &self.status else { return text(StatusCode::NOT_FOUND, "there is no status\n") };
        let snapshot = lock(status).snapshot();
        let row = |server: &Server| {
            let mut row = serde_json::to_value(server).unwrap_or_default();
            row["id"] = json!(server.name);
            row["process"] = serde_json::to_value(&snapshot.process).unwrap_or_default();
            for (name, value) in [("childMemory", Value::Null), ("login", Value::Null), ("fruitlessToday", json!(0))] {
                row[name] = value;
            }
            row
        };
        let rows: Vec<Value> = snapshot.servers.iter().filter(|server| may_use(&server.name)).map(row).collect();
        let page = json!({
            "version": snapshot.version, "servers": rows, "unresponsive": [], "probed": [], "logins": [],
        });
        json_answer(StatusCode::OK, Bytes::from(page.to_string()))
    }

    /// Answers with the metrics of the process, and of the servers that the reader may use.
    pub(super) fn metrics(&self, may_use: &MayUse) -> Answer {
        let Some(status) = &self.status else { return text(StatusCode::NOT_FOUND, "there are no metrics\n") };
        let mut samples = lock(status).metrics();
        samples.retain(|sample| sample.server().is_none_or(|server| may_use(server)));
        open_metrics(metrics::text::encode(vec![ProcessSamples { process: None, samples }]))
    }

    /// Answers with a stream of the events of the servers that the reader may use.
    pub(super) fn events(&self, may_use: MayUse) -> Answer {
        let Some(status) = &self.status else { return text(StatusCode::NOT_FOUND, "there is no status\n") };
        let items = lock(status).follow(Level::Info);
        followed(FollowedEvents::new(items, may_use))
    }

    fn servers(&self) -> Vec<Server> {
        self.status.as_ref().map(|status| lock(status).snapshot().servers).unwrap_or_default()
    }
}

/// A stream of events. A reader that is too slow misses events, and learns how many.
pub struct FollowedEvents {
    items: mpsc::Receiver<StreamItem>,
    may_use: MayUse,
    comment: Interval,
}

impl FollowedEvents {
    fn new(items: mpsc::Receiver<StreamItem>, may_use: MayUse) -> FollowedEvents {
        let mut comment = interval(COMMENT_INTERVAL);
        comment.set_missed_tick_behavior(MissedTickBehavior::Delay);
        FollowedEvents { items, may_use, comment }
    }

    /// Returns the next bytes, or nothing at the end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut buffer = BytesMut::new();
        while let Poll::Ready(item) = self.items.poll_recv(cx) {
            let (kind, data) = match item {
                None => return Poll::Ready(None),
                Some(StreamItem::Event(event)) => {
                    if event.server.as_deref().is_some_and(|server| !(self.may_use)(server)) {
                        continue;
                    }
                    ("event", serde_json::to_string(&event).unwrap_or_default())
                }
                Some(StreamItem::Missed(count)) => ("missed", json!({ "count": count }).to_string()),
            };
            let event = SseEvent { event: Some(kind.into()), data: Some(data.into()), ..SseEvent::default() };
            SseEncoder.encode(&event, &mut buffer);
            return Poll::Ready(Some(buffer.freeze()));
        }
        // The first tick comes at once: the reader sees that the stream is open.
        if self.comment.poll_tick(cx).is_ready() {
            SseEncoder.comment("waiting", &mut buffer);
            return Poll::Ready(Some(buffer.freeze()));
        }
        Poll::Pending
    }
}
