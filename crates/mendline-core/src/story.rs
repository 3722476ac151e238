//! The story of one call: its events from the request of the client to its answer.
//!
//! A story is a fold of events and their times. It keeps the events of its call, and those that changed the condition of
//! its server while the call was open: losses, connections, credential renewals, breakers, pauses. It decides nothing
//! and has a limit; texts are made by its readers.

use mendline_wire::Method;

use crate::event::{Event, LinkState, ToolName};
use crate::port::{ClientId, UpstreamId};

/// The limit of steps. Later steps are counted only.
const STEPS: usize = 64;

/// The story of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// The upstream of the call.
    pub upstream: UpstreamId,
    /// The number of the call; a rejected request has none.
    pub call: Option<u64>,
    /// The client that sent it.
    pub client: ClientId,
    /// Its method.
    pub method: Method,
    /// The tool that it calls.
    pub tool: Option<ToolName>,
    /// The time at which it arrived.
    pub accepted_at: u64,
    /// The events after its arrival, but for the last one.
    pub steps: Vec<Step>,
    /// The number of events that were beyond the limit.
    pub omitted: u32,
    /// The event that ended it.
    pub end: Option<Step>,
    is_troubled: bool,
}

/// An event and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The time, on the clock of the caller.
    pub at: u64,
    /// The event.
    pub event: Event,
}

impl Story {
    /// Begins a story with the event of an accepted or a rejected call. Other events begin none.
    pub fn begin(event: &Event, at: u64) -> Option<Story> {
        let (upstream, call, client, method, tool) = match event {
            Event::CallAccepted { upstream, call, client, method, tool, .. } => {
                (upstream, Some(*call), client, method, tool)
            }
            Event::CallRejected { upstream, client, method, tool, .. } => (upstream, None, client, method, tool),
            _ => return None,
        };
        let is_rejected = call.is_none();
        Some(Story {
            upstream: *upstream,
            call,
            client: *client,
            method: *method,
            tool: tool.clone(),
            accepted_at: at,
            steps: Vec::new(),
            omitted: 0,
            end: is_rejected.then(|| Step { at, event: event.clone() }),
            is_troubled: is_rejected,
        })
    }

    /// Adds the state of the server at the arrival of the call, which explains why the call waits.
    pub fn note_before(&mut self, before: &Step) {
        self.steps.insert(0, before.clone());
    }

    /// Applies an event of this call or of its server. Returns whether it belongs to the story.
    pub fn apply(&mut self, event: &Event, at: u64) -> bool {
        let is_own = event.call().is_some() && event.call() == self.call && event.upstream() == Some(self.upstream);
        let is_servers = is_about_condition(event) && event.upstream().is_none_or(|it| it == self.upstream);
        if self.end.is_some() || !(is_own || is_servers) {
            return false;
        }
        self.is_troubled |= is_own && is_trouble(event);
        let step = Step { at, event: event.clone() };
        if is_own && event.ends_call() {
            self.end = Some(step);
        } else if self.steps.len() < STEPS {
            self.steps.push(step);
        } else {
            self.omitted += 1;
        }
        true
    }

    /// Returns whether an attempt was lost, or the call failed or was rejected.
    pub fn is_troubled(&self) -> bool {
        self.is_troubled
    }

    /// Returns the time of its last event.
    pub fn last_at(&self) -> u64 {
        let last = self.end.as_ref().or(self.steps.last());
        last.map_or(self.accepted_at, |step| step.at.max(self.accepted_at))
    }
}

/// Returns whether an event of a call shows that it did not go the usual way.
pub fn is_trouble(event: &Event) -> bool {
    matches!(
        event,
        Event::AttemptEnded { .. }
            | Event::CallRetried { .. }
            | Event::RetryRefused { .. }
            | Event::ResponseResumed { .. }
            | Event::VerdictAwaited { .. }
            | Event::HintsAwaited { .. }
            | Event::CallSilent { .. }
            | Event::CallFailed { .. }
            | Event::CallRejected { .. }
    )
}

/// Returns whether an event changes the condition of a server, so that its calls wait, fail or go on.
pub fn is_about_condition(event: &Event) -> bool {
    matches!(
        event,
        Event::LinkStateChanged { .. }
            | Event::DialFailed { .. }
            | Event::DialPlanned { .. }
            | Event::UpstreamReady { .. }
            | Event::ReconnectRequested { .. }
            | Event::ReconnectDisabled { .. }
            | Event::ServerReplaced { .. }
            | Event::SessionReplayed { .. }
            | Event::SessionReplayFailed { .. }
            | Event::LoginRequired { .. }
            | Event::LoginAccepted { .. }
            | Event::CredentialRenewalStarted { .. }
            | Event::CredentialRenewed { .. }
            | Event::CredentialRenewalFailed { .. }
            | Event::ServerSuspected { .. }
            | Event::VerdictReached { .. }
            | Event::BreakerOpened { .. }
            | Event::BreakerHalfOpened { .. }
            | Event::BreakerClosed { .. }
            | Event::Isolated { .. }
            | Event::Resumed { .. }
            | Event::Paused { .. }
            | Event::PauseEnded { .. }
            | Event::ConnectivityChanged { .. }
            | Event::Stopping { .. }
    )
}

/// Returns whether a server is in a state in which its calls wait, if the event changes that.
pub fn makes_calls_wait(event: &Event) -> Option<bool> {
    match event {
        Event::LinkStateChanged { to: LinkState::Up, .. } => Some(false),
        Event::LinkStateChanged { to: LinkState::Idle, .. } => None,
        Event::LinkStateChanged { .. } => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::Answered;
    use crate::evidence::{Evidence, Outcome};
    use crate::policy::rule::Rule;
    use crate::reason::{Reason, RefusalReason};
    use crate::words::Cause;

    const UPSTREAM: UpstreamId = UpstreamId(1);
    const OTHER: UpstreamId = UpstreamId(2);

    fn accepted(call: u64) -> Event {
        let (client, method, tool) = (ClientId(1), Method::ToolsCall, Some(ToolName::new("read_note")));
        Event::CallAccepted { upstream: UPSTREAM, call, client, method, tool, trace: None }
    }

    fn started(call: u64, attempt: u32) -> Event {
        Event::AttemptStarted { upstream: UPSTREAM, call, attempt, number: 9 }
    }

    fn ended(call: u64) -> Event {
        let (evidence, why) = (Evidence::SILENCE, Reason::ConnectionEnded);
        Event::AttemptEnded {
            upstream: UPSTREAM,
            call,
            tool: None,
            attempt: 1,
            outcome: evidence.outcome(),
            evidence,
            why,
        }
    }

    fn retried(call: u64) -> Event {
        Event::CallRetried {
            upstream: UPSTREAM,
            call,
            method: Method::ToolsCall,
            tool: None,
            attempt: 2,
            most: 3,
            outcome: Outcome::Unknown,
            rule: Rule::MayRepeat,
            why: Reason::ConnectionEnded,
            was_out: true,
        }
    }

    fn answered(call: u64) -> Event {
        Event::CallAnswered {
            upstream: UPSTREAM,
            call,
            method: Method::ToolsCall,
            tool: None,
            attempts: 1,
            result: Answered::Ok,
            took: Duration::from_millis(5),
            attempt_took: Duration::from_millis(4),
        }
    }

    fn lost(upstream: UpstreamId) -> Event {
        let why = Some(Reason::ConnectionEnded);
        let (from, to) = (LinkState::Up, LinkState::Waiting);
        Event::LinkStateChanged { upstream, from, to, why, over: None, repeated: false }
    }

    fn told(events: &[Event]) -> Story {
        let mut story = Story::begin(&events[0], 0).unwrap();
        for (at, event) in (1..).zip(&events[1..]) {
            story.apply(event, at);
        }
        story
    }

    #[test]
    fn story_keeps_the_events_of_its_call_and_server() {
        let events = [
            accepted(1),
            started(1, 1),
            started(2, 1),
            lost(UPSTREAM),
            lost(OTHER),
            ended(1),
            retried(1),
            started(1, 2),
            answered(1),
            lost(UPSTREAM),
        ];
        let story = told(&events);
        let names: Vec<&str> = story.steps.iter().map(|step| step.event.name()).collect();
        assert_eq!(
            names,
            ["attempt_started", "link_state_changed", "attempt_ended", "call_retried", "attempt_started"]
        );
        let end = story.end.as_ref().unwrap();
        assert_eq!((end.at, end.event.name(), story.last_at()), (8, "call_answered", 8));
        assert!(story.is_troubled());
    }

    #[test]
    fn healthy_call_has_no_trouble() {
        let story = told(&[accepted(1), started(1, 1), answered(1)]);
        assert!(!story.is_troubled());
        assert_eq!((story.steps.len(), story.omitted), (1, 0));
    }

    #[test]
    fn rejected_call_is_over_at_once() {
        let rejected = Event::CallRejected {
            upstream: UPSTREAM,
            client: ClientId(1),
            method: Method::ToolsCall,
            tool: None,
            cause: Cause::Overloaded,
            why: Reason::Refusal(RefusalReason::Overloaded),
        };
        let mut story = Story::begin(&rejected, 7).unwrap();
        assert!(story.is_troubled() && story.call.is_none());
        assert!(!story.apply(&lost(UPSTREAM), 8));
        assert_eq!(story.end.unwrap().event, rejected);
        assert_eq!(Story::begin(&lost(UPSTREAM), 1), None);
    }

    #[test]
    fn steps_beyond_the_limit_are_counted_and_the_end_is_kept() {
        let mut story = Story::begin(&accepted(1), 0).unwrap();
        for at in 0..100 {
            assert!(story.apply(&ended(1), at));
        }
        assert!(story.apply(&answered(1), 100));
        assert_eq!((story.steps.len(), story.omitted), (STEPS, 36));
        assert!(story.end.is_some());
    }

    #[test]
    fn state_of_the_server_at_the_arrival_comes_first() {
        let mut story = told(&[accepted(1), started(1, 1)]);
        story.note_before(&Step { at: 0, event: lost(UPSTREAM) });
        assert_eq!(story.steps[0].event.name(), "link_state_changed");
        assert_eq!((makes_calls_wait(&lost(UPSTREAM)), makes_calls_wait(&accepted(1))), (Some(true), None));
    }
}
