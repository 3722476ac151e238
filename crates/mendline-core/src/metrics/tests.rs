use std::time::Duration;

use super::*;
use crate::event::{Condition, Dropped};
use crate::port::{ClientId, LinkId};
use crate::words::Cause;

const UPSTREAM: UpstreamId = UpstreamId(0);

/// Applies events that are a second apart.
fn folded(events: &[Event]) -> UpstreamMetrics {
    let mut metrics = Metrics::default();
    for (second, event) in (0..).zip(events) {
        metrics.apply(event, Moment::ZERO + Duration::from_secs(second));
    }
    metrics.upstreams.remove(&UPSTREAM).unwrap_or_default()
}

fn moved(from: LinkState, to: LinkState) -> Event {
    let why = (to == LinkState::Waiting).then_some(Reason::ConnectionEnded);
    let over = (to == LinkState::Up).then_some(Over::Child(7));
    Event::LinkStateChanged { upstream: UPSTREAM, from, to, why, over, repeated: false }
}

fn ready() -> Event {
    let link = LinkId { upstream: UPSTREAM, dial: 1 };
    Event::UpstreamReady { upstream: UPSTREAM, link, after: Duration::from_millis(80) }
}

fn up(from: LinkState) -> [Event; 3] {
    [moved(from, LinkState::Dialing), moved(LinkState::Dialing, LinkState::Up), ready()]
}

fn answered(tool: &str, result: Answered) -> Event {
    Event::CallAnswered {
        upstream: UPSTREAM,
        call: 1,
        method: Method::ToolsCall,
        tool: Some(ToolName::new(tool)),
        attempts: 1,
        result,
        took: Duration::from_secs(3),
        attempt_took: Duration::from_millis(15),
    }
}

fn failed(outcome: Outcome, why: Reason) -> Event {
    Event::CallFailed {
        upstream: UPSTREAM,
        call: 1,
        method: Method::ToolsCall,
        tool: Some(ToolName::new("read")),
        attempts: 1,
        was_out: true,
        cause: Cause::Unavailable,
        outcome,
        rule: crate::policy::rule::Rule::Unavailable,
        took: Duration::from_secs(1),
        why,
    }
}

fn of_tool<'a>(metrics: &'a UpstreamMetrics, tool: &str) -> &'a OperationMetrics {
    &metrics.operations[&Operation { method: Method::ToolsCall, tool: Some(ToolName::new(tool)) }]
}

#[test]
fn each_request_counts_once_by_outcome_and_reason() {
    let rejected = Event::CallRejected {
        upstream: UPSTREAM,
        client: ClientId(1),
        method: Method::ToolsCall,
        tool: Some(ToolName::new("read")),
        cause: Cause::Overloaded,
        why: Reason::Refusal(crate::reason::RefusalReason::Overloaded),
    };
    let metrics = folded(&[
        answered("read", Answered::Ok),
        answered("read", Answered::ToolError),
        answered("read", Answered::Error(-32602)),
        failed(Outcome::Unknown, Reason::ConnectionEnded),
        failed(Outcome::NotSent, Reason::TimedOut { after: None }),
        rejected,
        answered("write", Answered::Ok),
    ]);
    let read = of_tool(&metrics, "read");
    assert_eq!((read.ok, read.tool_errors, read.errors.get(&-32602)), (1, 1, Some(&1)));
    assert_eq!((read.unknown.get("connection_closed"), read.failed.get("timed_out")), (Some(&1), Some(&1)));
    assert_eq!((read.rejected.values().sum::<u64>(), read.requests()), (1, 6));
    assert_eq!(of_tool(&metrics, "write").requests(), 1);
}

#[test]
fn waiting_counts_for_the_request_and_not_for_the_server() {
    let metrics = folded(&[answered("read", Answered::Ok), failed(Outcome::NotSent, Reason::ConnectionEnded)]);
    let read = of_tool(&metrics, "read");
    assert_eq!((read.request_took.sum, read.request_took.count()), (Duration::from_secs(4), 2));
    assert_eq!((read.attempt_took.sum, read.attempt_took.count()), (Duration::from_millis(15), 1));
}

#[test]
fn tools_and_codes_beyond_the_limit_share_one_count() {
    let mut events: Vec<Event> = (0..10_000).map(|number| answered(&format!("tool{number}"), Answered::Ok)).collect();
    events.extend((0..1_000).map(|code| answered("tool0", Answered::Error(code - 40_000))));
    let metrics = folded(&events);
    assert_eq!(metrics.operations.len(), TOOLS + 1);
    assert_eq!(of_tool(&metrics, "other").ok, 10_000 - TOOLS as u64);
    assert_eq!(of_tool(&metrics, "tool0").errors.len(), ERROR_CODES + 1);
    assert_eq!(of_tool(&metrics, "tool0").errors[&0], 1_000 - ERROR_CODES as u64);
}

#[test]
fn loss_restart_and_recovery_time_are_counted() {
    let mut events = up(LinkState::Idle).to_vec();
    events.push(moved(LinkState::Up, LinkState::Waiting));
    events.push(moved(LinkState::Waiting, LinkState::Dialing));
    events.push(moved(LinkState::Dialing, LinkState::Waiting));
    events.extend(up(LinkState::Waiting));
    let metrics = folded(&events);
    assert_eq!((metrics.connections, metrics.restarts), (2, 1));
    assert_eq!((metrics.losses.get("connection_closed"), metrics.connections_failed.values().sum()), (Some(&1), 1));
    // From the loss at second 3 to the answer at second 8.
    assert_eq!((metrics.recoveries.count(), metrics.recoveries.sum), (1, Duration::from_secs(5)));
}

#[test]
fn requested_reconnect_is_no_loss() {
    let mut events = up(LinkState::Idle).to_vec();
    events.push(Event::ReconnectRequested { upstream: UPSTREAM });
    events.push(moved(LinkState::Up, LinkState::Draining));
    events.push(moved(LinkState::Draining, LinkState::Waiting));
    events.extend(up(LinkState::Waiting));
    let metrics = folded(&events);
    assert_eq!((metrics.losses.len(), metrics.connections_failed.len()), (0, 0));
    assert_eq!((metrics.recoveries.count(), metrics.restarts), (0, 1));
}

#[test]
fn outage_of_a_url_ends_with_the_next_answer() {
    let verdict = |condition| Event::VerdictReached { upstream: UPSTREAM, condition };
    let metrics = folded(&[
        verdict(Condition::Away),
        verdict(Condition::Away),
        answered("read", Answered::Ok),
        verdict(Condition::Away),
        verdict(Condition::Available),
        verdict(Condition::Available),
    ]);
    assert_eq!((metrics.recoveries.count(), metrics.recoveries.sum), (2, Duration::from_secs(3)));
}

#[test]
fn policies_and_lists_are_counted_by_name() {
    let (upstream, method) = (UPSTREAM, Method::ToolsList);
    let opened = Event::BreakerOpened {
        upstream,
        tool: None,
        open_for: Duration::from_secs(5),
        why: crate::reason::RefusalReason::Overloaded,
    };
    let metrics = folded(&[
        opened,
        Event::BreakerHalfOpened { upstream, tool: None },
        Event::BreakerClosed { upstream, tool: None },
        Event::MessageDropped { upstream, method, why: Dropped::Late },
        Event::AnsweredFromCatalogue { upstream, method, stale: true },
        Event::RateLimited { upstream, call: 1, wait: Duration::ZERO },
        Event::SessionReplayFailed { upstream, link: LinkId { upstream, dial: 1 }, why: Reason::ConnectionEnded },
    ]);
    let changes: Vec<_> = metrics.breaker_changes.into_iter().collect();
    assert_eq!(changes, [("closed", 1), ("half_open", 1), ("open", 1)]);
    assert_eq!((metrics.dropped["late"], metrics.catalogue_answers, metrics.rate_limited), (1, 1, 1));
    assert_eq!(metrics.handshakes_failed["connection_closed"], 1);
}
