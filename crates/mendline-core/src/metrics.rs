//! The counts and durations of all upstreams, folded from events.
//!
//! [`Status`](crate::Status) is the current state for people; [`Metrics`] are the counts by tool, outcome and reason that
//! a monitoring system collects and compares over time. Both are folds of the same events, so they cannot disagree.
//!
//! Everything is bounded. Tools are those that events name (at most
//! [`TOOL_NAMES`](crate::defaults::TOOL_NAMES) per upstream), of which the first [`TOOLS`] have counts of their own and
//! all others share the name `other`. Reasons are the stable names of typed reasons. No label holds an id or an argument.
//!
//! A healthy call costs one lookup by method and tool, and a few additions.

mod durations;
mod outage;

use std::collections::BTreeMap;

use mendline_wire::Method;

use crate::event::{Answered, Event, LinkState, Over, ToolName};
use crate::evidence::Outcome;
use crate::moment::Moment;
use crate::policy::breaker::BreakerState;
use crate::port::UpstreamId;
use crate::reason::Reason;

pub use durations::{BOUNDS, Durations};
use outage::Outage;

/// The number of tools of an upstream with counts of their own.
pub const TOOLS: usize = 100;

/// The name that all other tools share.
const OTHER: &str = "other";

/// The metrics of all upstreams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Each upstream with at least one event.
    pub upstreams: BTreeMap<UpstreamId, UpstreamMetrics>,
}

/// A count for each name.
pub type Named = BTreeMap<&'static str, u64>;

/// The metrics of one upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamMetrics {
    /// The requests of clients, by method and tool.
    pub operations: BTreeMap<Operation, OperationMetrics>,
    /// Connections and processes that have answered.
    pub connections: u64,
    /// Attempts to connect or to start a process that ended without an answer, by reason.
    pub connections_failed: Named,
    /// The losses of a ready connection or process, by reason.
    pub losses: Named,
    /// Processes that have answered after an earlier one had ended.
    pub restarts: u64,
    /// The times from the loss of an available server until it was available again.
    pub recoveries: Durations,
    /// Handshakes that failed, by reason.
    pub handshakes_failed: Named,
    /// Attempts beyond the first, by the reason why the one before failed.
    pub retries: Named,
    /// Retries that the retry budget did not allow.
    pub retries_refused: u64,
    /// Responses that were resumed.
    pub resumptions: u64,
    /// Changes of breakers, by the new state.
    pub breaker_changes: Named,
    /// Pauses that the server required.
    pub pauses: u64,
    /// Calls that waited because of the rate limit.
    pub rate_limited: u64,
    /// Requests that were answered from the catalogue.
    pub catalogue_answers: u64,
    /// Renewed credentials.
    pub credentials_renewed: u64,
    /// Failed renewals of a credential, by reason.
    pub credentials_failed: Named,
    /// Requests that the client cancelled or abandoned.
    pub cancelled: u64,
    /// Messages that were dropped, by reason.
    pub dropped: Named,
    /// Changes of lists that clients were notified of.
    pub lists_changed: u64,
    /// Apparent changes of lists that clients were not notified of.
    pub list_changes_hidden: u64,
    /// Clients that opened a session.
    pub clients_opened: u64,
    own: LinkFold,
}

/// The state of one link, as far as the meaning of its next event depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkFold {
    outage: Outage,
    history: LinkHistory,
    is_child: bool,
}

/// The past of a link, as far as its next change needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkHistory {
    /// It has not been ready.
    #[default]
    New,
    /// It is up and has given an answer.
    Ready,
    /// It is ready, and the operator requested a new connection: the end of the old one is no loss.
    Replaced,
    /// It was ready before, and is not now.
    Ended,
}

/// The kind of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// Its method.
    pub method: Method,
    /// The tool that it calls.
    pub tool: Option<ToolName>,
}

/// The requests of one kind. Each is counted once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationMetrics {
    /// The server answered with a result.
    pub ok: u64,
    /// The server answered with a result whose `isError` is set.
    pub tool_errors: u64,
    /// The server answered with a JSON-RPC error, by code.
    pub errors: BTreeMap<i64, u64>,
    /// Mendline answered with a failure, and the request did not run; by reason.
    pub failed: Named,
    /// Mendline answered with a failure, and the request may have run; by reason.
    pub unknown: Named,
    /// Mendline did not accept the request, by reason.
    pub rejected: Named,
    /// The time from the request to its answer, waiting and all attempts included.
    pub request_took: Durations,
    /// The time of the last attempt: what the server took.
    pub attempt_took: Durations,
}

/// The number of error codes of one kind of request that are counted apart.
const ERROR_CODES: usize = 20;

impl Metrics {
    /// Applies an event that was emitted now.
    pub fn apply(&mut self, event: &Event, now: Moment) {
        if let Some(upstream) = event.upstream() {
            self.upstreams.entry(upstream).or_default().apply(event, now);
        }
    }
}

impl UpstreamMetrics {
    /// Applies an event of this upstream.
    pub fn apply(&mut self, event: &Event, now: Moment) {
        let mut own = self.own;
        self.apply_of_member(&mut own, event, now);
        self.own = own;
        self.apply_credential(event);
    }

    /// Applies an event of another upstream with the same server, whose link is this one. The credential is that of the
    /// server, and its renewals count once.
    pub fn apply_of_member(&mut self, link: &mut LinkFold, event: &Event, now: Moment) {
        match event {
            Event::CallAccepted { .. } | Event::AttemptStarted { .. } => {}
            Event::CallAnswered { method, tool, result, took, attempt_took, .. } => {
                let operation = self.operation(*method, tool.as_ref());
                match result {
                    Answered::Ok => operation.ok += 1,
                    Answered::ToolError => operation.tool_errors += 1,
                    Answered::Error(code) => operation.count_error(*code),
                }
                operation.request_took.note(*took);
                operation.attempt_took.note(*attempt_took);
                link.outage.available(now, &mut self.recoveries);
            }
            Event::CallFailed { method, tool, outcome, took, why, .. } => {
                if *method == Method::Initialize {
                    count(&mut self.handshakes_failed, why.name());
                }
                let operation = self.operation(*method, tool.as_ref());
                let counts = if *outcome == Outcome::Unknown { &mut operation.unknown } else { &mut operation.failed };
                count(counts, why.name());
                operation.request_took.note(*took);
            }
            Event::CallRejected { method, tool, why, .. } => {
                count(&mut self.operation(*method, tool.as_ref()).rejected, why.name());
            }
            Event::ToolDenied { .. } => {
                // Without the name: a client that makes names up must not make metrics grow.
                count(&mut self.operation(Method::ToolsCall, None).rejected, "tool_denied");
            }
            Event::CallRetried { why, .. } => count(&mut self.retries, why.name()),
            Event::RetryRefused { .. } => self.retries_refused += 1,
            Event::ResponseResumed { .. } => self.resumptions += 1,
            Event::CallCancelled { .. } | Event::CallAbandoned { .. } => self.cancelled += 1,
            _ => {
                self.apply_link(link, event, now);
                self.apply_policy(event);
                self.apply_lists(event);
            }
        }
    }

    fn apply_link(&mut self, link: &mut LinkFold, event: &Event, now: Moment) {
        match event {
            Event::LinkStateChanged { from, to, why, over, .. } => {
                link.is_child = over.map_or(link.is_child, |over| matches!(over, Over::Child(_)));
                self.move_link(link, *from, *to, why.as_ref(), now);
            }
            Event::ReconnectRequested { .. } if link.history == LinkHistory::Ready => {
                link.history = LinkHistory::Replaced;
            }
            Event::UpstreamReady { .. } => {
                self.connections += 1;
                self.restarts += u64::from(link.is_child && link.history == LinkHistory::Ended);
                link.history = LinkHistory::Ready;
                link.outage.available(now, &mut self.recoveries);
            }
            Event::VerdictReached { condition, .. } => link.outage.verdict(*condition, now, &mut self.recoveries),
            Event::SessionReplayFailed { why, .. } => count(&mut self.handshakes_failed, why.name()),
            Event::InternalRequestFailed { method: Method::Initialize, why, .. } => {
                count(&mut self.handshakes_failed, why.name());
            }
            Event::ClientOpened { .. } => self.clients_opened += 1,
            _ => {}
        }
    }

    fn apply_credential(&mut self, event: &Event) {
        match event {
            Event::CredentialRenewed { .. } => self.credentials_renewed += 1,
            Event::CredentialRenewalFailed { why, .. } => count(&mut self.credentials_failed, why.name()),
            _ => {}
        }
    }

    fn move_link(&mut self, link: &mut LinkFold, from: LinkState, to: LinkState, why: Option<&Reason>, now: Moment) {
        let is_tried = matches!(from, LinkState::Dialing | LinkState::Up | LinkState::Draining);
        let name = why.map_or("unknown", Reason::name);
        match (link.history, to) {
            (LinkHistory::Ready, LinkState::Waiting | LinkState::Parked) if is_tried => {
                count(&mut self.losses, name);
                link.outage.lost(now);
                link.history = LinkHistory::Ended;
            }
            (LinkHistory::Ready | LinkHistory::Replaced, to) if to != LinkState::Draining => {
                link.history = LinkHistory::Ended;
            }
            (LinkHistory::New | LinkHistory::Ended, LinkState::Waiting | LinkState::Parked) if is_tried => {
                count(&mut self.connections_failed, name);
            }
            _ => {}
        }
    }

    fn apply_policy(&mut self, event: &Event) {
        match event {
            Event::BreakerOpened { .. } => count(&mut self.breaker_changes, BreakerState::Open.name()),
            Event::BreakerHalfOpened { .. } => count(&mut self.breaker_changes, BreakerState::HalfOpen.name()),
            Event::BreakerClosed { .. } | Event::Resumed { .. } => {
                count(&mut self.breaker_changes, BreakerState::Closed.name());
            }
            Event::Isolated { .. } => count(&mut self.breaker_changes, BreakerState::Isolated.name()),
            Event::Paused { .. } => self.pauses += 1,
            Event::RateLimited { .. } => self.rate_limited += 1,
            _ => {}
        }
    }

    fn apply_lists(&mut self, event: &Event) {
        match event {
            Event::AnsweredFromCatalogue { .. } => self.catalogue_answers += 1,
            Event::MessageDropped { why, .. } => count(&mut self.dropped, why.name()),
            Event::ListChanged { .. } => self.lists_changed += 1,
            Event::ListChangeHidden { .. } => self.list_changes_hidden += 1,
            _ => {}
        }
    }

    fn operation(&mut self, method: Method, tool: Option<&ToolName>) -> &mut OperationMetrics {
        let mut operation = Operation { method, tool: tool.cloned() };
        let is_known = self.operations.contains_key(&operation);
        if !is_known && tool.is_some() && self.operations.len() >= TOOLS {
            operation.tool = Some(ToolName::new(OTHER));
        }
        self.operations.entry(operation).or_default()
    }
}

impl OperationMetrics {
    fn count_error(&mut self, code: i64) {
        // Codes beyond the limit are counted as 0, which no error has.
        let is_counted = self.errors.contains_key(&code) || self.errors.len() < ERROR_CODES;
        *self.errors.entry(if is_counted { code } else { 0 }).or_default() += 1;
    }

    /// The number of requests.
    pub fn requests(&self) -> u64 {
        let named = [&self.failed, &self.unknown, &self.rejected].map(|counts| counts.values().sum::<u64>());
        self.ok + self.tool_errors + self.errors.values().sum::<u64>() + named.iter().sum::<u64>()
    }
}

fn count(counts: &mut Named, name: &'static str) {
    *counts.entry(name).or_default() += 1;
}

#[cfg(test)]
mod tests;
