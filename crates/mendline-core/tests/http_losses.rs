//! Stories about how a server says that it has lost a session, and about what only looks like it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stage;

use std::time::Duration;

use mendline_core::config::Dialect;
use mendline_core::defaults;
use mendline_core::port::{Content, EndHow, ExchangeId};
use stage::http::{GREETING, Seen, Stage, call, complete_greeting, endpoint, over_a_trunk, without_a_session};

/// The server refuses a call with an error that names it, or that names nobody.
fn refuse(stage: &mut Stage, seen: &Seen, status: u16, code: i64, words: &str, named: bool) {
    let id = if named { seen.json()["id"].to_string() } else { "null".into() };
    stage.status(seen.id, status, Content::Json, None);
    stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{words}"}}}}"#));
    stage.end(seen.id, EndHow::Complete);
}

/// The next trunk comes up, the server is greeted over it, and gives the call that goes out over it.
fn next_trunk(stage: &mut Stage) -> (ExchangeId, Seen) {
    stage.pass(Duration::from_secs(1));
    let trunk = stage.takes().id;
    endpoint(stage, trunk, "/messages?s=2");
    let greeting = stage.takes();
    assert_eq!((greeting.method().as_str(), greeting.ask.target.as_deref()), ("initialize", Some("/messages?s=2")));
    stage.status(greeting.id, 202, Content::Empty, None);
    stage.end(greeting.id, EndHow::Complete);
    stage.event(trunk, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, greeting.json()["id"]));
    complete_greeting(stage);
    stage.pass(Duration::from_secs(1));
    (trunk, stage.takes())
}

#[test]
fn an_error_speaks_of_a_lost_session_by_its_status_or_by_its_words_and_its_code_and_by_nothing_else() {
    for (status, code, words, named, lost) in [
        (200, -32000, "Session not found", true, true),
        (200, -32600, "no valid session", true, true),
        (200, -32000, "boom", true, false),
        (200, -32602, "no such session type", true, false),
        (400, -32602, "bad session", true, true),
        (400, -32000, "boom", false, true),
        (400, -32602, "bad arguments", true, false),
        (403, -32000, "not in this session", true, false),
        (403, -32000, "forbidden", true, false),
        (404, -32601, "nothing here", true, true),
    ] {
        let what = format!("HTTP {status}, {code} {words:?}, named: {named}");
        let mut stage = Stage::greeted();
        stage.client_says(&call(1, "create_note"));
        let seen = stage.takes();
        refuse(&mut stage, &seen, status, code, words, named);
        if lost {
            assert_eq!(stage.client_reads(), None, "{what}");
            assert_eq!(stage.takes().method(), "initialize", "{what}");
        } else {
            assert_eq!(stage.client_reads().expect(&what)["error"]["message"], words, "{what}");
            assert!(stage.seen.is_empty(), "{what}");
        }
    }
}

#[test]
fn a_bare_400_to_a_session_that_worked_is_its_loss() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 400, Content::Empty, None);
    stage.end(seen.id, EndHow::Complete);
    assert_eq!(stage.client_reads(), None);
    stage.greet("s2");
}

#[test]
fn where_there_is_no_session_none_can_be_lost() {
    let (mut stage, _notices) = without_a_session();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    refuse(&mut stage, &seen, 404, -32000, "Session not found", true);
    assert_eq!(stage.client_reads().expect("an answer")["error"]["message"], "Session not found");
    for status in [400, 404] {
        stage.client_says(&call(2, "create_note"));
        let seen = stage.takes();
        stage.status(seen.id, status, Content::Empty, None);
        stage.end(seen.id, EndHow::Complete);
        let answer = stage.client_reads().expect("an answer");
        assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["cause"], "cannot_bridge", "HTTP {status}");
    }
    assert!(stage.seen.is_empty());
}

#[test]
fn a_post_that_finds_its_session_gone_costs_the_trunk_and_goes_out_over_the_next() {
    for named in [false, true] {
        let (mut stage, trunk) = over_a_trunk();
        stage.client_says(&call(1, "create_note"));
        let post = stage.takes();
        if named {
            refuse(&mut stage, &post, 404, -32001, "Session not found", true);
        } else {
            stage.status(post.id, 404, Content::Empty, None);
            stage.end(post.id, EndHow::Complete);
        }
        assert_eq!((stage.client_reads(), &stage.aborted), (None, &vec![trunk]), "named: {named}");
        let (_, again) = next_trunk(&mut stage);
        assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("tools/call", Some("/messages?s=2")));
    }
}

#[test]
fn a_greeting_that_finds_nothing_where_the_trunk_sent_it_has_its_answer() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_says(GREETING);
    let trunk = stage.takes().id;
    endpoint(&mut stage, trunk, "/messages?s=1");
    let post = stage.takes();
    stage.status(post.id, 404, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    assert_eq!(stage.client_reads().expect("said, not looped")["error"]["code"], -31009);
    assert!(stage.seen.is_empty());
}

#[test]
fn a_greeting_whose_endpoint_went_with_its_trunk_goes_out_over_the_next() {
    let mut stage = Stage::new(Dialect::Sse);
    stage.client_says(GREETING);
    let trunk = stage.takes().id;
    endpoint(&mut stage, trunk, "/messages?s=1");
    let post = stage.takes();
    stage.end(trunk, EndHow::Complete);
    stage.status(post.id, 404, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    assert_eq!(stage.client_reads(), None);
    stage.pass(Duration::from_secs(1));
    let trunk = stage.takes().id;
    endpoint(&mut stage, trunk, "/messages?s=2");
    let again = stage.takes();
    assert_eq!((again.method().as_str(), again.ask.target.as_deref()), ("initialize", Some("/messages?s=2")));
}

#[test]
fn a_post_that_hears_late_that_its_session_is_gone_does_not_cost_the_next_trunk() {
    let (mut stage, trunk) = over_a_trunk();
    stage.client_says(&call(1, "create_note"));
    let post = stage.takes();
    stage.end(trunk, EndHow::Complete);
    stage.pass(Duration::from_millis(300));
    let next = stage.takes().id;
    stage.status(post.id, 404, Content::Empty, None);
    stage.end(post.id, EndHow::Complete);
    assert_eq!(stage.client_reads(), None, "it goes out again");
    assert!(!stage.aborted.contains(&next), "the next trunk knows nothing of that session");
}

#[test]
fn however_many_posts_go_down_with_one_trunk_its_loss_costs_the_budget_once() {
    const BURST: u32 = 2 * defaults::BUDGET_BUCKET;
    let (mut stage, trunk) = over_a_trunk();
    (0..BURST).for_each(|id| stage.client_says(&call(id, "create_note")));
    let posts: Vec<Seen> = (0..BURST).map(|_| stage.takes()).collect();
    stage.end(trunk, EndHow::Complete);
    for post in posts {
        stage.status(post.id, 404, Content::Empty, None);
        stage.end(post.id, EndHow::Complete);
    }
    assert_eq!(stage.client_reads(), None, "all of them go out again");
    next_trunk(&mut stage);
    assert_eq!(stage.seen.len() as u32, BURST - 1);
}
