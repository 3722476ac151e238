//! Stories about legacy SSE: how it is found out that a server speaks it, and what hangs on its one long GET, the trunk.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stage;

use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::port::{Content, EndHow, Verb, Written};
use mendline_core::{Input, LinkState, defaults};
use stage::NOTES;
use stage::http::{GREETING, Stage, call, complete_greeting, endpoint, outcome, over_a_trunk};

#[test]
fn a_server_that_knows_only_the_old_way_is_found_out_and_answers_over_its_trunk() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    let post = stage.takes();
    stage.status(post.id, 405, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    let trunk = stage.takes();
    assert_eq!((trunk.ask.verb, trunk.ask.target.as_deref()), (Verb::Get, None));
    endpoint(&mut stage, trunk.id, "/messages?s=1");
    let post = stage.takes();
    assert_eq!((post.method().as_str(), post.ask.target.as_deref()), ("initialize", Some("/messages?s=1")));
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    let id = &post.json()["id"];
    stage.event(trunk.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 0);

    stage.client_says(&call(1, "create_note"));
    let post = stage.takes();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    stage.end(trunk.id, EndHow::Complete);
    assert_eq!(outcome(&stage.client_reads().expect("the answer was to come over the trunk")), "unknown");
}

#[test]
fn a_server_that_knows_neither_way_is_said_to_and_not_looped_over() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    for status in [404, 404] {
        let seen = stage.takes();
        stage.status(seen.id, status, Content::Other, None);
        stage.end(seen.id, EndHow::Complete);
    }
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["error"]["code"], -31009, "{answer}");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Parked));
    stage.pass(Duration::from_secs(300));
    assert!(stage.seen.is_empty());
    stage.client_says(GREETING);
    assert_eq!(stage.takes().ask.verb, Verb::Post, "the next call may try both again");
}

#[test]
fn a_new_connection_by_hand_gives_the_trunk_up_and_makes_another() {
    let (mut stage, trunk) = over_a_trunk();
    stage.tell(Input::Reconnect { upstream: NOTES });
    assert_eq!(stage.aborted, [trunk]);
    stage.pass(Duration::from_secs(1));
    let next = stage.takes();
    assert_eq!((next.ask.verb, next.ask.target), (Verb::Get, None));
    endpoint(&mut stage, next.id, "/messages?s=2");
    let greeting = stage.takes();
    assert_eq!((greeting.method().as_str(), greeting.ask.target.as_deref()), ("initialize", Some("/messages?s=2")));
}

#[test]
fn a_message_that_finds_no_way_while_the_trunk_stands_tries_again_and_the_trunk_stays() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    for _ in 0..3 {
        stage.refuse_connection();
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
        assert!(stage.seen.is_empty(), "not without a pause");
        stage.pass(Duration::from_secs(1));
    }
    let post = stage.takes();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn a_trunk_that_may_have_been_greeted_is_not_greeted_twice() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_says(GREETING);
    let trunk = stage.takes().id;
    endpoint(&mut stage, trunk, "/messages?s=1");
    let post = stage.takes();
    stage.end(post.id, EndHow::Cut("reset".into()));
    assert_eq!(stage.aborted, [trunk]);
    stage.pass(Duration::from_secs(1));
    let next = stage.takes().id;
    endpoint(&mut stage, next, "/messages?s=2");
    assert_eq!(stage.takes().ask.target.as_deref(), Some("/messages?s=2"));
}

#[test]
fn a_trunk_whose_line_breaks_does_not_prove_that_the_server_speaks_neither_way() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_says(GREETING);
    let post = stage.takes();
    stage.status(post.id, 405, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    let trunk = stage.takes();
    stage.end(trunk.id, EndHow::Cut("reset".into()));
    assert!(stage.client_reads().is_none(), "the call waits");
    stage.pass(Duration::from_secs(1));
    let begun = stage.takes();
    stage.status(begun.id, 200, Content::Events, None);
    stage.end(begun.id, EndHow::Cut("reset".into()));
    assert!(stage.client_reads().is_none(), "a stream that began proves the contrary");
    stage.pass(Duration::from_secs(1));
    let again = stage.takes().id;
    endpoint(&mut stage, again, "/messages?s=1");
    assert_eq!(stage.takes().method(), "initialize");
}

#[test]
fn a_call_on_its_way_to_a_trunk_that_is_lost_was_sent_only_if_it_had_a_connection() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    stage.client_says(&call(2, "create_note"));
    stage.takes();
    stage.seen.pop_front().expect("the second, without a connection");
    stage.end(trunk, EndHow::Cut("reset".into()));
    stage.pass(defaults::ORPHAN);
    let answer = stage.client_reads().expect("nobody knows what became of the first");
    assert_eq!((answer["id"].as_u64(), outcome(&answer)), (Some(1), "unknown"));
    assert!(stage.client_reads().is_none(), "the second waits for the next trunk");
}

#[test]
fn a_post_that_may_not_be_sent_costs_its_call_and_not_the_trunk() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    let post = stage.seen.pop_front().expect("a post");
    let how = EndHow::Forbidden("its certificate has expired".into());
    stage.tell(Input::End { exchange: post.id, how, written: Written::Nothing });
    let answer = stage.client_reads().expect("it is said at once");
    assert_eq!((answer["id"].as_u64(), outcome(&answer)), (Some(1), "not_sent"));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up), "the trunk stands");
    stage.client_says(&call(2, "create_note"));
    let post = stage.takes();
    stage.status(post.id, 202, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, post.json()["id"]));
    assert_eq!(stage.client_reads().unwrap()["id"], 2);
}

#[test]
fn a_post_whose_end_is_unknown_costs_its_call_and_not_the_trunk() {
    let (mut stage, _) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    let post = stage.takes();
    stage.end(post.id, EndHow::Cut("reset".into()));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    stage.client_says(&call(2, "create_note"));
    assert_eq!(stage.takes().ask.target.as_deref(), Some("/messages?s=1"));
}

#[test]
fn a_client_that_asks_again_and_again_for_what_cannot_be_bridged_is_no_storm() {
    let mut stage = Stage::new(Dialect::Auto);
    let mut requests = 0;
    for _ in 0..200 {
        stage.client_says(GREETING);
        for _ in 0..2 {
            let Some(seen) = stage.seen.pop_front() else { continue };
            requests += 1;
            stage.tell(Input::Reached { exchange: seen.id });
            stage.status(seen.id, 404, Content::Other, None);
            stage.end(seen.id, EndHow::Complete);
        }
        stage.pass(Duration::from_millis(100));
    }
    assert!(requests <= 6, "{requests} requests within twenty seconds");
}

#[test]
fn a_trunk_that_names_no_endpoint_is_given_up_in_time_and_another_made() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_says(GREETING);
    let mute = stage.takes();
    stage.status(mute.id, 200, Content::Events, None);
    stage.pass(defaults::HANDSHAKE_HTTP);
    assert_eq!(stage.aborted, [mute.id]);
    stage.pass(Duration::from_secs(1));
    let next = stage.takes().id;
    endpoint(&mut stage, next, "/messages?s=1");
    assert_eq!(stage.takes().method(), "initialize");
}

#[test]
fn a_server_that_comes_back_with_the_other_dialect_is_found_out_again() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let lost = stage.takes();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, EndHow::Complete);
    stage.confirm_loss(404);
    let greeting = stage.takes();
    assert_eq!(greeting.method(), "initialize");
    stage.status(greeting.id, 405, Content::Empty, None);
    stage.end(greeting.id, EndHow::Complete);
    let trunk = stage.takes();
    assert_eq!(trunk.ask.verb, Verb::Get);
    endpoint(&mut stage, trunk.id, "/messages?s=1");
    let greeting = stage.takes();
    assert_eq!((greeting.method().as_str(), greeting.ask.target.as_deref()), ("initialize", Some("/messages?s=1")));
    stage.status(greeting.id, 202, Content::Empty, None);
    stage.end(greeting.id, EndHow::Complete);
    stage.event(trunk.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, greeting.json()["id"]));
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().method(), "tools/call");
    stage.end(trunk.id, EndHow::Complete);
    stage.client_says(&call(2, "create_note"));
    stage.pass(Duration::from_secs(1));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    let trunk = stage.takes();
    assert_eq!(trunk.ask.verb, Verb::Get);
    stage.status(trunk.id, 405, Content::Empty, None);
    stage.end(trunk.id, EndHow::Complete);
    stage.pass(Duration::from_secs(1));
    stage.greet("s3");
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().header("mcp-session-id"), Some("s3"));
}

#[test]
fn a_proxy_that_answers_404_for_a_server_that_worked_is_waited_out() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    // The call and the ping, then the handshake and the event stream, twice.
    for _ in 0..6 {
        stage.next_request();
        let seen = stage.takes();
        stage.status(seen.id, 404, Content::Other, None);
        stage.end(seen.id, EndHow::Complete);
    }
    assert_eq!(stage.client_reads(), None, "the call waits");
    stage.next_request();
    stage.greet("s2");
    complete_greeting(&mut stage);
    assert_eq!(stage.takes().method(), "tools/call");
}

#[test]
fn a_post_whose_trunk_ended_is_judged_by_its_own_end_if_that_comes_soon() {
    let cut = || EndHow::Cut("reset".into());
    for (status, how, written, after) in [
        (None, cut(), Written::Partly, "not_sent"),
        (None, cut(), Written::Nothing, "not_sent"),
        (Some(404), EndHow::Complete, Written::Whole, "refused"),
        (None, cut(), Written::Whole, "unknown"),
        (Some(202), EndHow::Complete, Written::Whole, "unknown"),
    ] {
        let (mut stage, trunk) = over_a_trunk();
        stage.client_says(&call(1, "create_note"));
        let post = stage.takes();
        stage.end(trunk, EndHow::Complete);
        assert!(stage.client_reads().is_none(), "its own exchange may tell");
        if let Some(status) = status {
            stage.status(post.id, status, Content::Empty, None);
        }
        stage.tell(Input::End { exchange: post.id, how: how.clone(), written });
        if after == "unknown" {
            assert_eq!(outcome(&stage.client_reads().expect("said at once")), "unknown", "{status:?} {how:?}");
            continue;
        }
        assert!(stage.client_reads().is_none(), "{status:?} {how:?} {written:?}: it goes out again");
        stage.pass(Duration::from_secs(1));
        let trunk = stage.takes().id;
        endpoint(&mut stage, trunk, "/messages?s=2");
        let greeting = stage.takes();
        assert_eq!(greeting.method(), "initialize");
        stage.status(greeting.id, 202, Content::Empty, None);
        stage.end(greeting.id, EndHow::Complete);
        stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, greeting.json()["id"]));
        complete_greeting(&mut stage);
        stage.pass(Duration::from_secs(1));
        let again = stage.takes();
        assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("tools/call", Some("/messages?s=2")));
    }
}

#[test]
fn a_post_whose_trunk_ended_and_that_says_nothing_is_unknown_after_a_moment() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    let post = stage.takes();
    stage.end(trunk, EndHow::Complete);
    stage.pass(defaults::ORPHAN - Duration::from_millis(1));
    assert!(stage.client_reads().is_none());
    stage.pass(Duration::from_millis(1));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert!(stage.aborted.contains(&post.id));
}

#[test]
fn a_server_of_the_old_way_that_is_sick_is_asked_for_its_trunk_again() {
    let (mut stage, trunk) = over_a_trunk();
    stage.end(trunk, EndHow::Complete);
    stage.client_says(&call(1, "create_note"));
    for _ in 0..3 {
        stage.next_request();
        let next = stage.takes();
        assert_eq!(next.ask.verb, Verb::Get, "503 says nothing about the way that it speaks");
        stage.status(next.id, 503, Content::Empty, None);
        stage.end(next.id, EndHow::Complete);
    }
}

#[test]
fn what_was_being_said_over_a_trunk_is_given_up_with_it() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    let note = stage.takes();
    stage.end(trunk, EndHow::Complete);
    assert_eq!(stage.aborted, [note.id]);
}
