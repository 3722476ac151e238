//! Calls to a server over Streamable HTTP, in a session, with JSON answers.

use mendline_core::config::Dialect;
use mendline_core::port::{Content, ExchangeEnd, ExchangeId, Head, HttpRequest, Written};
use mendline_core::{Input, Output, UpstreamConfig};
use mendline_wire::Received;

use crate::harness::{Harness, INITIALIZE, INITIALIZED};
use crate::{RESULT, policies};

/// As long as the session ids of real servers.
const SESSION: &str = "3f2a6c1e-8b7d-4c55-9e0a-6d1f0b2c7a94";

/// Initializes a session and makes this many calls.
pub(crate) fn make(calls: u64) {
    let server = UpstreamConfig::http("server", "http://server.example/mcp", Dialect::Auto);
    let mut harness = Harness::new(policies::all(server));
    for message in [INITIALIZE, INITIALIZED] {
        harness.client_sends(message);
        settle(&mut harness);
    }
    for _ in 0..calls {
        harness.client_calls();
        serve(&mut harness);
        harness.client_reads_answer();
    }
}

/// Answers every request of the engine until there are no more. The server has no GET stream.
fn settle(harness: &mut Harness) {
    while let Some((exchange, ask)) = next_work(harness) {
        match ask.body.as_ref().map(|message| harness.reply(message)) {
            Some(Some(reply)) => respond(harness, exchange, head(200, Content::Json, Some(SESSION)), Some(reply)),
            Some(None) => respond(harness, exchange, head(202, Content::Empty, None), None),
            None => respond(harness, exchange, head(405, Content::Empty, None), None),
        }
    }
    harness.client_reads();
}

/// Answers one call.
fn serve(harness: &mut Harness) {
    let Some((exchange, HttpRequest { body: Some(request), .. })) = next_work(harness) else {
        unreachable!("a call was made")
    };
    let received = harness.answer(&request, RESULT);
    respond(harness, exchange, head(200, Content::Json, None), Some(received));
    assert!(next_work(harness).is_none(), "exactly one call");
}

fn next_work(harness: &mut Harness) -> Option<(ExchangeId, HttpRequest)> {
    match harness.next_work()? {
        Output::Exchange { exchange, request: ask, .. } => Some((exchange, *ask)),
        other => unreachable!("an exchange was expected, not {other:?}"),
    }
}

fn respond(harness: &mut Harness, exchange: ExchangeId, head: Head, body: Option<Received>) {
    harness.handle(Input::Reached { exchange });
    harness.handle(Input::Head { exchange, head });
    if let Some(received) = body {
        harness.handle(Input::Body { exchange, received });
    }
    harness.handle(Input::End { exchange, how: ExchangeEnd::Complete, written: Written::Whole });
}

fn head(status: u16, content: Content, session: Option<&str>) -> Head {
    Head { status, content, session: session.map(str::to_owned), retry_after_ms: None, challenge: None }
}
