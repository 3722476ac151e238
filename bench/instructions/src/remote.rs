//! Calls to a server over Streamable HTTP, in a session, with answers as plain JSON.

use mendline_core::config::Dialect;
use mendline_core::port::{Ask, Content, EndHow, ExchangeId, Head, Verb, Written};
use mendline_core::{Input, Output, UpstreamConfig};

use crate::stage::{GREETING, INITIALIZED, Stage, WELCOME};
use crate::{RESULT, policies};

/// As long as those that servers give out.
const SESSION: &str = "3f2a6c1e-8b7d-4c55-9e0a-6d1f0b2c7a94";

/// Greets a server and makes this many calls.
pub(crate) fn make(calls: u64) {
    let server = UpstreamConfig::http("server", "http://server.example/mcp", Dialect::Auto);
    let mut stage = Stage::new(policies::all(server));
    stage.client_says(GREETING);
    serve(&mut stage, Some(SESSION), WELCOME);
    stage.client_reads();
    stage.client_says(INITIALIZED);
    let (note, _) = begun(&mut stage);
    end(&mut stage, note, 202);
    // A server that has nothing to say unasked.
    let (notices, ask) = begun(&mut stage);
    assert_eq!(ask.verb, Verb::Get, "the stream for notices is asked for");
    end(&mut stage, notices, 405);
    for _ in 0..calls {
        stage.client_calls();
        serve(&mut stage, None, RESULT);
        stage.client_reads_its_answer();
    }
}

/// The server takes one request and answers it.
fn serve(stage: &mut Stage, session: Option<&str>, result: &str) {
    let (exchange, ask) = begun(stage);
    let Some(request) = ask.body else { unreachable!("a call has a body") };
    stage.tell(Input::Reached { exchange });
    stage.tell(Input::Head { exchange, head: head(200, Content::Json, session) });
    let received = stage.answer(&request, result);
    stage.tell(Input::Body { exchange, received });
    stage.tell(Input::End { exchange, how: EndHow::Complete, written: Written::Whole });
    assert!(stage.output().is_none(), "nothing is to be done but to write");
}

fn begun(stage: &mut Stage) -> (ExchangeId, Ask) {
    match stage.output() {
        Some(Output::Exchange { exchange, ask, .. }) => (exchange, *ask),
        other => unreachable!("an exchange was expected, not {other:?}"),
    }
}

fn end(stage: &mut Stage, exchange: ExchangeId, status: u16) {
    stage.tell(Input::Reached { exchange });
    stage.tell(Input::Head { exchange, head: head(status, Content::Empty, None) });
    stage.tell(Input::End { exchange, how: EndHow::Complete, written: Written::Whole });
}

fn head(status: u16, content: Content, session: Option<&str>) -> Head {
    Head { status, content, session: session.map(str::to_owned), retry_after_ms: None }
}
