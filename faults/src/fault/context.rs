//! What a fault has to work with: the request, the rule's value, and a server that can still do the right thing.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::Value;

use super::Runs;
use crate::HttpRequest;
use crate::plan::{InjectedFault, Timing};
use crate::server::admitted::{Admitted, Begun};
use crate::server::reply::Reply;
use crate::server::state::{Refused, ServerState};

/// One request that a fault answers.
pub(crate) struct FaultContext {
    pub(crate) state: Arc<ServerState>,
    pub(crate) request: HttpRequest,
    pub(crate) value: Value,
    runs: bool,
}

/// What the server would have said: whatever came before, and the answer last.
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

    /// Does what was asked, if it is to be done at all, and keeps quiet about the answer.
    pub(crate) async fn run(&self) {
        if self.runs && self.request.is_request() {
            // What the rules refuse is not done, and the fault answers all the same.
            let _ = self.execute().await;
        }
    }

    /// Accepts the message by the rules of its era.
    pub(crate) fn admit(&self) -> Result<Arc<Admitted>, Refused> {
        self.state.admit(self.request.clone())
    }

    /// Does what was asked, and tells what the server would have said.
    pub(crate) async fn execute(&self) -> Result<Executed, Refused> {
        let admitted = self.admit()?;
        let messages = admitted.begin(&self.state).stream.collect().await;
        Ok(Executed { admitted, messages })
    }

    /// Does the right thing.
    pub(crate) async fn serve(self) -> Reply {
        self.state.serve(self.request).await
    }

    /// Says these messages to the client, in the way it expects an answer. More than one cannot travel as one JSON text.
    pub(crate) async fn send(&self, admitted: Arc<Admitted>, messages: Vec<Bytes>) -> Reply {
        let is_single = messages.len() == 1;
        let begun = admitted.stream_of(&self.state, messages);
        if is_single { admitted.deliver(&self.state, begun).await } else { self.stream(admitted, begun).await }
    }

    /// Carries a stream to the client, as events wherever there is a choice.
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

    /// The rule's value as a `Retry-After`: a number of seconds is written as that, `{"date": n}` as the time in n seconds.
    pub(crate) fn retry_after(&self) -> String {
        match self.value["date"].as_u64() {
            Some(seconds) => httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds)),
            None => self.number(1).to_string(),
        }
    }
}

impl Executed {
    /// The answer itself; empty when the call was cancelled.
    pub(crate) fn answer(&self) -> Bytes {
        self.messages.last().cloned().unwrap_or_default()
    }
}
