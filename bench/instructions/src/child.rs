//! Calls to a server that is a child process.

use mendline_core::{Input, LinkId, Output, Port, UpstreamConfig};

use crate::stage::{GREETING, INITIALIZED, Stage, WELCOME};
use crate::{RESULT, policies};

/// Greets a server and makes this many calls.
pub(crate) fn make(calls: u64) {
    let mut stage = Stage::new(policies::all(UpstreamConfig::child("server", "server")));
    let Some(Output::Spawn { link }) = stage.output() else { unreachable!("a child is started with its client") };
    stage.tell(Input::Spawned { link, pid: 1 });
    stage.client_says(GREETING);
    serve(&mut stage, link, WELCOME);
    stage.client_reads();
    stage.client_says(INITIALIZED);
    assert!(stage.engine.poll_write(Port::Link(link)).is_some(), "`initialized` is passed on");
    for _ in 0..calls {
        stage.client_calls();
        serve(&mut stage, link, RESULT);
        stage.client_reads_its_answer();
    }
}

/// The child reads one request and answers it.
fn serve(stage: &mut Stage, link: LinkId, result: &str) {
    assert!(stage.output().is_none(), "nothing is to be done but to write");
    let Some(request) = stage.engine.poll_write(Port::Link(link)) else { unreachable!("a request was made") };
    assert!(stage.engine.poll_write(Port::Link(link)).is_none(), "one request, and no more");
    let received = stage.answer(&request, result);
    stage.tell(Input::FromLink { link, received });
    assert!(stage.output().is_none(), "nothing is to be done but to write");
}
