//! Calls to a stdio server.

use mendline_core::{Input, LinkId, Output, Port, UpstreamConfig};

use crate::harness::{Harness, INITIALIZE, INITIALIZED};
use crate::{RESULT, policies};

/// Initializes a session and makes this many calls while `others` more are open.
pub(crate) fn make(calls: u64, others: u64) {
    let mut harness = Harness::new(policies::all(UpstreamConfig::child("server", "server")));
    let Some(Output::Spawn { link }) = harness.next_work() else {
        unreachable!("the child is started with its client")
    };
    harness.handle(Input::Spawned { link, pid: 1 });
    for message in [INITIALIZE, INITIALIZED] {
        harness.client_sends(message);
        settle(&mut harness, link);
    }
    for _ in 0..others {
        harness.client_calls();
        assert!(harness.next_work().is_none(), "no other child is started");
        assert!(harness.engine.poll_write(Port::Link(link), harness.now).is_some(), "a call was made");
    }
    for _ in 0..calls {
        harness.client_calls();
        serve(&mut harness, link);
        harness.client_reads_answer();
    }
}

/// Answers every request of the engine until there are no more.
fn settle(harness: &mut Harness, link: LinkId) {
    while let Some(message) = harness.engine.poll_write(Port::Link(link), harness.now) {
        if let Some(received) = harness.reply(&message) {
            harness.handle(Input::FromLink { link, received });
        }
    }
    harness.client_reads();
    assert!(harness.next_work().is_none(), "no other child is started");
}

/// Answers one call.
fn serve(harness: &mut Harness, link: LinkId) {
    assert!(harness.next_work().is_none(), "no other child is started");
    let Some(request) = harness.engine.poll_write(Port::Link(link), harness.now) else {
        unreachable!("a call was made")
    };
    assert!(harness.engine.poll_write(Port::Link(link), harness.now).is_none(), "exactly one call");
    let received = harness.answer(&request, RESULT);
    harness.handle(Input::FromLink { link, received });
    assert!(harness.next_work().is_none(), "no other child is started");
}
