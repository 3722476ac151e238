//! The recoveries of an upstream, folded from its events.
//!
//! A count is taken where the recovery is complete, not where it begins: a restart counts when the server is ready
//! again, a call is saved when the server has answered it. Recoveries that the operator has requested do not count.
//!
//! The fold is given the time with each event. A healthy call costs one addition and a check of an empty map.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

use crate::event::{Answered, CredentialState, Event, LinkState, Over};
use crate::moment::Moment;

/// What was recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recoveries {
    /// A lost server that is a command was started again and became ready.
    pub restarts: u64,
    /// A lost server at a URL answered again.
    pub reconnects: u64,
    /// A session was initialized again, after a restart or a reconnect or because the server had lost it.
    pub sessions: u64,
    /// Attempts of calls beyond the first.
    pub retries: u64,
    /// Responses that broke off and were requested again from their last event on.
    pub resumed: u64,
    /// Credentials that replaced one.
    pub renewals: u64,
    /// Calls that the server answered with a result, although an attempt of them failed or their response broke off.
    pub saved: u64,
    /// Calls that arrived while the server was away, and that it answered later without a failed attempt.
    pub waited: u64,
    /// The time from a loss until the server was ready again.
    pub away: Duration,
    /// Calls that the server answered, for comparison.
    pub answered: u64,
    /// Calls that Mendline answered with a failure.
    pub failed: u64,
}

impl Recoveries {
    /// Returns whether anything but healthy calls was counted.
    pub fn is_any(&self) -> bool {
        Recoveries { answered: 0, ..*self } != Recoveries::default()
    }
}

impl AddAssign for Recoveries {
    fn add_assign(&mut self, other: Recoveries) {
        let Recoveries { restarts, reconnects, sessions, retries, resumed, renewals, saved, waited, .. } = other;
        self.restarts += restarts;
        self.reconnects += reconnects;
        self.sessions += sessions;
        self.retries += retries;
        self.resumed += resumed;
        self.renewals += renewals;
        self.saved += saved;
        self.waited += waited;
        self.away += other.away;
        self.answered += other.answered;
        self.failed += other.failed;
    }
}

/// The trouble of a call that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// It arrived while the server was away.
    Waited,
    /// An attempt failed, or its response broke off.
    Failed,
}

/// The fold of the events of one upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecoveryFold {
    over: Option<Over>,
    is_ready: bool,
    /// The operator requested a new connection: the end of the old one is no loss.
    is_requested: bool,
    /// The time of the loss, or the time up to which the loss is counted.
    lost_at: Option<Moment>,
    has_credential: bool,
    is_renewing: bool,
    /// Open calls with trouble. Their number is limited by that of open calls.
    troubled: BTreeMap<u64, Trouble>,
}

impl RecoveryFold {
    /// Applies one event at this time, and returns what it adds.
    pub fn apply(&mut self, event: &Event, now: Moment) -> Recoveries {
        let mut added = Recoveries::default();
        match event {
            Event::CallAccepted { call, .. } => {
                if self.lost_at.is_some() {
                    self.troubled.insert(*call, Trouble::Waited);
                }
                return added;
            }
            Event::AttemptStarted { .. } => return added,
            Event::CallAnswered { call, result, .. } => {
                added.answered = 1;
                if !self.troubled.is_empty() {
                    self.count_answer(*call, *result, &mut added);
                }
                return added;
            }
            _ => {}
        }
        added.away = self.count_away(now);
        self.apply_call(event, &mut added);
        self.apply_link(event, now, &mut added);
        self.apply_credential(event, &mut added);
        added
    }

    /// Returns the time away since the last event, if the server is away.
    pub fn count_away(&mut self, now: Moment) -> Duration {
        match &mut self.lost_at {
            Some(since) => now.since(std::mem::replace(since, now.max(*since))),
            None => Duration::ZERO,
        }
    }

    fn count_answer(&mut self, call: u64, result: Answered, added: &mut Recoveries) {
        match (self.troubled.remove(&call), result) {
            // The last error of a call that was sent again because of errors is no success.
            (None, _) | (Some(Trouble::Failed), Answered::Error(_)) => {}
            (Some(Trouble::Failed), _) => added.saved += 1,
            (Some(Trouble::Waited), _) => added.waited += 1,
        }
    }

    fn apply_call(&mut self, event: &Event, added: &mut Recoveries) {
        match event {
            Event::CallRetried { call, .. } => {
                added.retries += 1;
                self.troubled.insert(*call, Trouble::Failed);
            }
            Event::ResponseResumed { call, .. } => {
                added.resumed += 1;
                self.troubled.insert(*call, Trouble::Failed);
            }
            Event::AttemptEnded { call, .. }
            | Event::VerdictAwaited { call, .. }
            | Event::HintsAwaited { call, .. } => {
                self.troubled.insert(*call, Trouble::Failed);
            }
            Event::CallFailed { call, .. } => {
                added.failed += 1;
                self.troubled.remove(call);
            }
            Event::CallCancelled { call, .. }
            | Event::CallAbandoned { call, .. }
            | Event::ProvisionalAnswer { call, .. } => drop(self.troubled.remove(call)),
            Event::SessionReplayed { .. } => added.sessions += 1,
            _ => {}
        }
    }

    fn apply_link(&mut self, event: &Event, now: Moment, added: &mut Recoveries) {
        match event {
            Event::LinkStateChanged { from, to, over, .. } => {
                let was_tried = matches!(from, LinkState::Dialing | LinkState::Up | LinkState::Draining);
                match to {
                    LinkState::Up => (self.over, self.is_ready) = (*over, false),
                    LinkState::Waiting | LinkState::Parked if was_tried => self.lose(now),
                    LinkState::Idle => self.is_ready = false,
                    _ => {}
                }
            }
            Event::ReconnectDisabled { .. } => self.lose(now),
            Event::ReconnectRequested { .. } => self.is_requested = self.is_ready,
            Event::UpstreamReady { .. } => {
                self.is_ready = true;
                if self.lost_at.take().is_some() {
                    match self.over {
                        Some(Over::Child(_)) => added.restarts += 1,
                        _ => added.reconnects += 1,
                    }
                }
            }
            _ => {}
        }
    }

    fn lose(&mut self, now: Moment) {
        self.is_ready = false;
        if !std::mem::take(&mut self.is_requested) {
            self.lost_at.get_or_insert(now);
        }
    }

    fn apply_credential(&mut self, event: &Event, added: &mut Recoveries) {
        match event {
            Event::CredentialRenewalStarted { .. } => self.is_renewing = true,
            Event::CredentialRenewalFailed { state, .. } => self.is_renewing = *state == CredentialState::Renewing,
            Event::CredentialRenewed { .. } => {
                // The first credential renews none, unless it was requested.
                let (had, was_renewing) = (self.has_credential, std::mem::take(&mut self.is_renewing));
                added.renewals += u64::from(had || was_renewing);
                self.has_credential = true;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use mendline_wire::Method;

    use super::*;
    use crate::evidence::Outcome;
    use crate::port::{ClientId, LinkId, UpstreamId};
    use crate::reason::Reason;
    use crate::words::Cause;

    const UPSTREAM: UpstreamId = UpstreamId(0);

    fn moved(from: LinkState, to: LinkState, over: Option<Over>) -> Event {
        Event::LinkStateChanged { upstream: UPSTREAM, from, to, why: None, over, repeated: false }
    }

    fn ready() -> Event {
        let link = LinkId { upstream: UPSTREAM, dial: 1 };
        Event::UpstreamReady { upstream: UPSTREAM, link, after: Duration::from_millis(80) }
    }

    fn up(over: Over) -> Vec<Event> {
        vec![
            moved(LinkState::Idle, LinkState::Dialing, None),
            moved(LinkState::Dialing, LinkState::Up, Some(over)),
            ready(),
        ]
    }

    fn lost() -> Event {
        moved(LinkState::Up, LinkState::Waiting, None)
    }

    fn accepted(call: u64) -> Event {
        let (client, method) = (ClientId(1), Method::ToolsCall);
        Event::CallAccepted { upstream: UPSTREAM, call, client, method, tool: None, trace: None }
    }

    fn retried(call: u64) -> Event {
        let (method, outcome, why) = (Method::ToolsCall, Outcome::Unknown, Reason::ConnectionEnded);
        Event::CallRetried {
            upstream: UPSTREAM,
            call,
            method,
            tool: None,
            attempt: 2,
            most: 3,
            outcome,
            rule: crate::policy::rule::Rule::MayRepeat,
            why,
            was_out: true,
        }
    }

    fn answered(call: u64, result: Answered) -> Event {
        let (took, method) = (Duration::ZERO, Method::ToolsCall);
        Event::CallAnswered {
            upstream: UPSTREAM,
            call,
            method,
            tool: None,
            attempts: 1,
            result,
            took,
            attempt_took: took,
        }
    }

    fn failed(call: u64) -> Event {
        let (method, cause, outcome) = (Method::ToolsCall, Cause::Unavailable, Outcome::NotSent);
        let (took, why) = (Duration::ZERO, Reason::ConnectionEnded);
        Event::CallFailed {
            upstream: UPSTREAM,
            call,
            method,
            tool: None,
            attempts: 1,
            was_out: false,
            cause,
            outcome,
            rule: crate::policy::rule::Rule::Unavailable,
            took,
            why,
        }
    }

    /// Applies events, one second apart.
    fn folded(events: &[Event]) -> Recoveries {
        let mut fold = RecoveryFold::default();
        let mut all = Recoveries::default();
        for (second, event) in (0..).zip(events) {
            all += fold.apply(event, Moment::ZERO + Duration::from_secs(second));
        }
        all
    }

    #[test]
    fn restart_and_reconnect_count_when_the_server_is_ready_again() {
        let (dial, child) = (moved(LinkState::Waiting, LinkState::Dialing, None), Over::Child(7));
        let mut events = up(child);
        assert_eq!(folded(&events), Recoveries::default(), "the first start is no recovery");
        events.extend([lost(), dial.clone(), moved(LinkState::Dialing, LinkState::Waiting, None), dial.clone()]);
        assert_eq!(folded(&events).restarts, 0);
        assert_eq!(folded(&events).away, Duration::from_secs(3), "an outage counts while it lasts");
        events.extend([moved(LinkState::Dialing, LinkState::Up, Some(child)), ready()]);
        let all = folded(&events);
        assert_eq!((all.restarts, all.reconnects, all.away), (1, 0, Duration::from_secs(5)));
        let mut events = up(Over::Http);
        events.extend([lost(), dial, moved(LinkState::Dialing, LinkState::Up, Some(Over::Http)), ready()]);
        assert_eq!((folded(&events).restarts, folded(&events).reconnects), (0, 1));
    }

    #[test]
    fn requested_reconnect_is_no_recovery() {
        let mut events = up(Over::Child(7));
        events.push(Event::ReconnectRequested { upstream: UPSTREAM });
        events.push(moved(LinkState::Up, LinkState::Draining, None));
        events.push(moved(LinkState::Draining, LinkState::Waiting, None));
        events.extend(up(Over::Child(8)));
        assert_eq!(folded(&events), Recoveries::default());
    }

    #[test]
    fn call_is_saved_only_by_a_result_after_a_failed_attempt() {
        let resumed = Event::ResponseResumed { upstream: UPSTREAM, call: 1, tool: None, resumption: 1, most: 10 };
        for (events, saved) in [
            (vec![accepted(1), answered(1, Answered::Ok)], 0),
            (vec![accepted(1), retried(1), answered(1, Answered::Ok)], 1),
            (vec![accepted(1), retried(1), retried(1), answered(1, Answered::ToolError)], 1),
            (vec![accepted(1), retried(1), answered(1, Answered::Error(-32603))], 0),
            (vec![accepted(1), retried(1), failed(1), accepted(1), answered(1, Answered::Ok)], 0),
            (vec![accepted(1), resumed, answered(1, Answered::Ok)], 1),
            (vec![accepted(1), retried(1), accepted(2), answered(2, Answered::Ok)], 0),
        ] {
            assert_eq!(folded(&events).saved, saved, "{events:?}");
        }
    }

    #[test]
    fn call_that_waited_for_the_server_counts_apart() {
        let mut events = up(Over::Child(7));
        events.extend([lost(), accepted(1), moved(LinkState::Waiting, LinkState::Dialing, None)]);
        events.extend([moved(LinkState::Dialing, LinkState::Up, Some(Over::Child(8))), ready()]);
        events.extend([answered(1, Answered::Ok), accepted(2), answered(2, Answered::Ok)]);
        let all = folded(&events);
        assert_eq!((all.waited, all.saved, all.answered), (1, 0, 2));
    }

    #[test]
    fn first_credential_is_no_renewal() {
        let renewed = |number| Event::CredentialRenewed { upstream: UPSTREAM, number };
        assert_eq!(folded(&[renewed(1)]).renewals, 0);
        assert_eq!(folded(&[renewed(1), renewed(2), renewed(3)]).renewals, 2);
    }
}
