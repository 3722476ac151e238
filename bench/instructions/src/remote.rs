//! Calls to a server over Streamable HTTP, in a session, with answers as plain JSON.

use mendline_core::config::Dialect;
use mendline_core::port::{Ask, Content, EndHow, ExchangeId, Head, Written};
use mendline_core::{Input, Output, UpstreamConfig};
use mendline_wire::Received;

use crate::stage::{INITIALIZE, INITIALIZED, Stage};
use crate::{RESULT, policies};

/// As long as those that servers give out.
const SESSION: &str = "3f2a6c1e-8b7d-4c55-9e0a-6d1f0b2c7a94";

/// Greets a server and makes this many calls.
pub(crate) fn make(calls: u64) {
    let server = UpstreamConfig::http("server", "http://server.example/mcp", Dialect::Auto);
    let mut stage = Stage::new(policies::all(server));
    for word in [INITIALIZE, INITIALIZED] {
        stage.client_says(word);
        settle(&mut stage);
    }
    for _ in 0..calls {
        stage.client_calls();
        serve(&mut stage);
        stage.client_reads_its_answer();
    }
}

/// The server says something to everything that it is asked, until nobody asks any more. It has nothing to say unasked.
fn settle(stage: &mut Stage) {
    while let Some((exchange, ask)) = wanted(stage) {
        match ask.body.as_ref().map(|message| stage.reply(message)) {
            Some(Some(reply)) => respond(stage, exchange, head(200, Content::Json, Some(SESSION)), Some(reply)),
            Some(None) => respond(stage, exchange, head(202, Content::Empty, None), None),
            None => respond(stage, exchange, head(405, Content::Empty, None), None),
        }
    }
    stage.client_reads();
}

/// The server takes one call and answers it.
fn serve(stage: &mut Stage) {
    let Some((exchange, Ask { body: Some(request), .. })) = wanted(stage) else { unreachable!("a call was made") };
    let received = stage.answer(&request, RESULT);
    respond(stage, exchange, head(200, Content::Json, None), Some(received));
    assert!(wanted(stage).is_none(), "one call, and no more");
}

fn wanted(stage: &mut Stage) -> Option<(ExchangeId, Ask)> {
    match stage.wanted()? {
        Output::Exchange { exchange, ask, .. } => Some((exchange, *ask)),
        other => unreachable!("an exchange was expected, not {other:?}"),
    }
}

fn respond(stage: &mut Stage, exchange: ExchangeId, head: Head, body: Option<Received>) {
    stage.tell(Input::Reached { exchange });
    stage.tell(Input::Head { exchange, head });
    if let Some(received) = body {
        stage.tell(Input::Body { exchange, received });
    }
    stage.tell(Input::End { exchange, how: EndHow::Complete, written: Written::Whole });
}

fn head(status: u16, content: Content, session: Option<&str>) -> Head {
    Head { status, content, session: session.map(str::to_owned), retry_after_ms: None }
}
