//! Calls to a server that is a child process.

use mendline_core::{Input, LinkId, Output, Port, UpstreamConfig};

use crate::stage::{INITIALIZE, INITIALIZED, Stage};
use crate::{RESULT, policies};

/// Greets a server and makes this many calls, while `others` more are open all the time.
pub(crate) fn make(calls: u64, others: u64) {
    let mut stage = Stage::new(policies::all(UpstreamConfig::child("server", "server")));
    let Some(Output::Spawn { link }) = stage.wanted() else { unreachable!("a child is started with its client") };
    stage.tell(Input::Spawned { link, pid: 1 });
    for word in [INITIALIZE, INITIALIZED] {
        stage.client_says(word);
        settle(&mut stage, link);
    }
    for _ in 0..others {
        stage.client_calls();
        assert!(stage.wanted().is_none(), "one child is enough");
        assert!(stage.engine.poll_write(Port::Link(link)).is_some(), "a call was made");
    }
    for _ in 0..calls {
        stage.client_calls();
        serve(&mut stage, link);
        stage.client_reads_its_answer();
    }
}

/// The child says something to everything that it is asked, until nobody asks any more.
fn settle(stage: &mut Stage, link: LinkId) {
    while let Some(message) = stage.engine.poll_write(Port::Link(link)) {
        if let Some(received) = stage.reply(&message) {
            stage.tell(Input::FromLink { link, received });
        }
    }
    stage.client_reads();
    assert!(stage.wanted().is_none(), "one child is enough");
}

/// The child reads one call and answers it.
fn serve(stage: &mut Stage, link: LinkId) {
    assert!(stage.wanted().is_none(), "one child is enough");
    let Some(request) = stage.engine.poll_write(Port::Link(link)) else { unreachable!("a call was made") };
    assert!(stage.engine.poll_write(Port::Link(link)).is_none(), "one call, and no more");
    let received = stage.answer(&request, RESULT);
    stage.tell(Input::FromLink { link, received });
    assert!(stage.wanted().is_none(), "one child is enough");
}
