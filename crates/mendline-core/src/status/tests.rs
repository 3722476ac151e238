use super::*;
use crate::port::{ClientId, LinkId};

const UPSTREAM: UpstreamId = UpstreamId(0);

fn folded(events: &[Event]) -> UpstreamStatus {
    let mut status = UpstreamStatus::default();
    events.iter().for_each(|event| status.apply(event));
    status
}

fn moved(from: LinkState, to: LinkState, over: Option<Over>) -> Event {
    let why = (to == LinkState::Waiting).then_some(Reason::ConnectionEnded);
    Event::LinkStateChanged { upstream: UPSTREAM, from, to, why, over, repeated: false }
}

fn ready() -> Event {
    let link = LinkId { upstream: UPSTREAM, dial: 1 };
    Event::UpstreamReady { upstream: UPSTREAM, link, after: Duration::from_millis(80) }
}

fn up() -> Vec<Event> {
    let (idle, dialing) = (LinkState::Idle, LinkState::Dialing);
    vec![moved(idle, dialing, None), moved(dialing, LinkState::Up, Some(Over::Child(7))), ready()]
}

#[test]
fn ready_server_counts_as_loss_and_unready_as_failed_dial() {
    let mut events = up();
    events.push(moved(LinkState::Up, LinkState::Waiting, None));
    let status = folded(&events);
    assert_eq!((status.dials, status.losses, status.dials_failed), (1, 1, 0));
    assert_eq!((status.last_error.clone(), status.child()), (Some(Reason::ConnectionEnded.into()), None));
    events.push(moved(LinkState::Waiting, LinkState::Dialing, None));
    events.push(moved(LinkState::Dialing, LinkState::Waiting, None));
    let status = folded(&events);
    assert_eq!((status.dials, status.losses, status.dials_failed), (2, 1, 1));
}

#[test]
fn manual_reconnect_is_no_loss_and_no_error() {
    let mut events = up();
    events.push(Event::ReconnectRequested { upstream: UPSTREAM });
    events.push(moved(LinkState::Up, LinkState::Draining, None));
    assert_eq!(folded(&events).child(), Some(7), "the child runs while it is drained");
    events.push(moved(LinkState::Draining, LinkState::Waiting, None));
    let status = folded(&events);
    assert_eq!((status.losses, status.dials_failed, status.last_error), (0, 0, None));
    events.push(moved(LinkState::Waiting, LinkState::Dialing, None));
    events.push(moved(LinkState::Dialing, LinkState::Waiting, None));
    assert_eq!(folded(&events).dials_failed, 1, "later failures count");
}

#[test]
fn subscriptions_do_not_count_in_the_latency() {
    let answered = |method, took| {
        let (client, tool, trace) = (ClientId(1), None, None);
        let accepted = Event::CallAccepted { upstream: UPSTREAM, call: 1, client, method, tool, trace };
        let sent = Event::AttemptStarted { upstream: UPSTREAM, call: 1, attempt: 1, number: 1 };
        let answered = Event::CallAnswered {
            upstream: UPSTREAM,
            call: 1,
            method,
            tool: None,
            attempts: 1,
            result: Answered::Ok,
            took,
            attempt_took: took,
        };
        [accepted, sent, answered]
    };
    let day = Duration::from_secs(86_400);
    let quick = Duration::from_millis(1);
    let calls = [answered(Method::SubscriptionsListen, day), answered(Method::ToolsCall, quick)].concat();
    let status = folded(&calls);
    assert_eq!((status.tool_calls.ok + status.other_calls.ok, status.open, status.out), (2, 0, 0));
    let latency = status.latency.unwrap();
    assert_eq!(latency.count(), 1);
    assert!(latency.per_mille(1_000).unwrap() < Duration::from_millis(2));
}
