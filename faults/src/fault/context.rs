//! The context of a fault: the request, the rule's value, and the server for the parts that work.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HeaderName, RETRY_AFTER};
use serde_json::Value;

use super::Runs;
use crate::HttpRequest;
use crate::plan::{InjectedFault, Timing};
use crate::server::admitted::{Admitted, Begun};
use crate::server::reply::Reply;
use crate::server::state::{Refused, ServerState};

/// The request that a fault answers.
pub(crate) struct FaultContext {
    pub(crate) state: Arc<ServerState>,
    pub(crate) request: HttpRequest,
    pub(crate) value: Value,
    runs: bool,
}

/// The messages of the real answer, the result last.
pub(crate) struct Executed {
    pub(crate) admitted: Arc<Admitted>,
    pub(crate) messages: Vec<Bytes>,
}

impl FaultContext {
    pub(crate) fn new(state: Arc<ServerState>, request: HttpRequest, injected: &InjectedFault) -> FaultContext {
        let runs = match injected.fault.runs {
            Runs::Never => false,
            Runs::PerRule => injected.timing == Timing::After,
            Runs::Always => true,
        };
        FaultContext { state, request, value: injected.value.clone(), runs }
    }

    /// Runs the request if the rule demands it, and discards the answer.
    pub(crate) async fn run(&self) {
        if self.runs && self.request.is_request() {
            // A request that the protocol's checks refuse does not run, and the fault answers anyway.
            let _ = self.execute().await;
        }
    }

    /// Checks and accepts the message by the rules of its era.
    pub(crate) fn admit(&self) -> Result<Arc<Admitted>, Refused> {
        self.state.admit(self.request.clone())
    }

    /// Runs the request and returns the real answer.
    pub(crate) async fn execute(&self) -> Result<Executed, Refused> {
        let admitted = self.admit()?;
        let messages = admitted.begin(&self.state).stream.collect().await;
        Ok(Executed { admitted, messages })
    }

    /// Answers without the fault.
    pub(crate) async fn serve(self) -> Reply {
        self.state.serve(self.request).await
    }

    /// Sends these messages in the form that the client expects. Several messages need an event stream.
    pub(crate) async fn send(&self, admitted: Arc<Admitted>, messages: Vec<Bytes>) -> Reply {
        let is_single = messages.len() == 1;
        let begun = admitted.stream_of(&self.state, messages);
        if is_single { admitted.deliver(&self.state, begun).await } else { self.stream(admitted, begun).await }
    }

    /// Delivers a stream, as events where the protocol has a choice.
    pub(crate) async fn stream(&self, admitted: Arc<Admitted>, begun: Begun) -> Reply {
        match admitted.protocol {
            crate::server::admitted::Protocol::HttpSse => admitted.deliver(&self.state, begun).await,
            _ => {
                let sse_format = admitted.sse_format(&self.state);
                admitted.deliver_events(&self.state, begun, sse_format)
            }
        }
    }

    /// The rule's value as a number.
    pub(crate) fn number(&self, default: u64) -> u64 {
        self.value.as_u64().unwrap_or(default)
    }

    /// The rule's value as milliseconds.
    pub(crate) fn millis(&self, default: u64) -> Duration {
        Duration::from_millis(self.number(default))
    }

    /// The rule's value as a header that names a time to retry. A number is `Retry-After` in seconds, `{"date": n}` the
    /// same as a date; `{"quota": n}` is a `RateLimit` of n seconds, `{"unix": n}` an `X-RateLimit-Reset` as a Unix time.
    pub(crate) fn retry_hint(&self) -> (HeaderName, String) {
        let in_seconds = |name: &str| Some(SystemTime::now() + Duration::from_secs(self.value[name].as_u64()?));
        if let Some(seconds) = self.value["quota"].as_u64() {
            return (HeaderName::from_static("ratelimit"), format!("\"default\";r=0;t={seconds}"));
        }
        if let Some(then) = in_seconds("unix") {
            // Rounded up: a quota that is announced too early would be refused again.
            let unix = then.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() + 1;
            return (HeaderName::from_static("x-ratelimit-reset"), unix.to_string());
        }
        let value = in_seconds("date").map_or_else(|| self.number(1).to_string(), httpdate::fmt_http_date);
        (RETRY_AFTER, value)
    }
}

impl Executed {
    /// Returns the result; empty when the call was cancelled.
    pub(crate) fn answer(&self) -> Bytes {
        self.messages.last().cloned().unwrap_or_default()
    }
}
