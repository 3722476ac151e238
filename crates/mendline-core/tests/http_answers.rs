//! Stories about what comes back over HTTP and is no plain answer, and about questions of servers and the answers to them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stage;

use std::time::Duration;

use mendline_core::Input;
use mendline_core::port::{Content, EndHow, Written};
use stage::http::{Seen, Stage, call, complete_greeting, outcome};

/// A server has asked, and the client's answer is on its way.
fn replying() -> (Stage, Seen) {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let asks = stage.takes();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.client_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, question["id"]));
    let reply = stage.takes();
    (stage, reply)
}

#[test]
fn a_202_to_a_request_is_said_and_an_html_page_too() {
    for (status, content) in [(202, Content::Empty), (200, Content::Other)] {
        let mut stage = Stage::greeted();
        stage.client_says(&call(1, "create_note"));
        let seen = stage.takes();
        stage.status(seen.id, status, content, None);
        if content == Content::Other {
            stage.body(seen.id, "<html>");
        }
        stage.end(seen.id, EndHow::Complete);
        assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
        assert!(stage.seen.is_empty());
    }
}

#[test]
fn a_question_asked_in_a_lost_session_is_not_answered_in_the_next() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    stage.client_says(&call(2, "create_note"));
    let (asks, lost) = (stage.takes(), stage.takes());
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, EndHow::Complete);
    stage.confirm_loss(404);
    stage.greet("s2");
    complete_greeting(&mut stage);
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    assert!(stage.client_reads().is_none(), "nobody could be answered");
}

#[test]
fn a_session_goes_on_over_a_new_connection_and_so_do_its_questions() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let asks = stage.takes();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let question = stage.client_reads().unwrap();
    stage.client_says(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    stage.refuse_connection();
    stage.pass(Duration::from_secs(1));
    let looks = stage.takes();
    stage.answer(&looks, r#"{"tools":[]}"#);
    stage.client_says(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, question["id"]));
    let reply = stage.takes();
    assert_eq!((reply.json()["id"].as_str(), reply.header("mcp-session-id")), (Some("q"), Some("s1")));
}

#[test]
fn an_answer_to_a_question_that_may_not_have_arrived_is_sent_again_three_times_in_all() {
    let (mut stage, first) = replying();
    stage.end(first.id, EndHow::Cut("reset".into()));
    let second = stage.takes();
    assert_eq!((second.json(), second.header("mcp-session-id")), (first.json(), Some("s1")));
    stage.end(second.id, EndHow::Cut("reset".into()));
    let third = stage.takes();
    stage.end(third.id, EndHow::Cut("reset".into()));
    assert!(stage.seen.is_empty(), "not for ever");
}

#[test]
fn an_answer_to_a_question_that_was_taken_or_whose_session_is_gone_is_not_sent_again() {
    let (mut stage, reply) = replying();
    stage.status(reply.id, 202, Content::Empty, None);
    stage.end(reply.id, EndHow::Cut("reset".into()));
    assert!(stage.seen.is_empty());

    let (mut stage, reply) = replying();
    stage.client_says(&call(2, "create_note"));
    let lost = stage.takes();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, EndHow::Complete);
    stage.confirm_loss(404);
    stage.greet("s2");
    complete_greeting(&mut stage);
    stage.seen.clear();
    stage.end(reply.id, EndHow::Cut("reset".into()));
    assert!(stage.seen.is_empty());
}

#[test]
fn a_notification_is_sent_again_only_if_it_cannot_have_arrived() {
    for (written, again) in [(Written::Partly, 1), (Written::Whole, 0)] {
        let mut stage = Stage::greeted();
        stage.client_says(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        let note = stage.takes();
        stage.tell(Input::End { exchange: note.id, how: EndHow::Cut("reset".into()), written });
        assert_eq!(stage.seen.len(), again, "{written:?}");
    }
}

#[test]
fn an_answer_that_breaks_off_is_unknown_and_the_reason_is_the_cut() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Json, None);
    stage.end(seen.id, EndHow::Cut("the connection was reset".into()));
    let answer = stage.client_reads().unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outcome(&answer) == "unknown" && text.contains("the connection was reset"), "{text}");
}

#[test]
fn questions_are_withdrawn_when_everything_ends() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let asks = stage.takes();
    stage.status(asks.id, 200, Content::Events, None);
    stage.event(asks.id, None, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    stage.client_reads().unwrap();
    stage.tell(Input::Stop);
    stage.tell(Input::Stop);
    assert_eq!(stage.engine.load().asks, 0);
}

#[test]
fn an_event_that_names_a_call_and_cannot_be_read_is_its_answer() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, None, "a line of log");
    assert!(stage.client_reads().is_none(), "noise harms nobody");
    stage.event(seen.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, seen.json()["id"]));
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
    assert_eq!(stage.aborted, [seen.id]);
}

#[test]
fn a_server_that_wants_a_login_is_said_to_want_one() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 401, Content::Empty, None);
    stage.end(seen.id, EndHow::Complete);
    let answer = stage.client_reads().unwrap();
    let failure = &answer["result"]["_meta"]["dev.mendline/failure"];
    assert_eq!((&failure["cause"], &failure["outcome"]), (&"needs_login".into(), &"refused".into()), "{answer}");
}

#[test]
fn an_answer_under_a_wrong_label_is_taken_and_said_once() {
    let mut stage = Stage::greeted();
    for id in 1..=3 {
        stage.client_says(&call(id, "create_note"));
        let seen = stage.takes();
        stage.status(seen.id, 200, Content::Other, None);
        stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, seen.json()["id"]));
        stage.end(seen.id, EndHow::Complete);
        assert_eq!(stage.client_reads().unwrap()["id"], id);
    }
    assert_eq!(stage.heard.iter().filter(|line| line.contains("Content-Type")).count(), 1);
}

#[test]
fn whatever_is_wrong_with_an_answer_the_call_and_the_log_are_told_and_nothing_loops() {
    type Play = fn(&mut Stage, &Seen);
    let plays: [(&str, &str, Play); 5] = [
        ("not JSON-RPC", "HTML", |stage, seen| {
            stage.status(seen.id, 200, Content::Other, None);
            stage.body(seen.id, "<!doctype html>");
            stage.end(seen.id, EndHow::Complete);
        }),
        ("not JSON-RPC", "truncated JSON", |stage, seen| {
            stage.status(seen.id, 200, Content::Json, None);
            stage.body(seen.id, r#"{"jsonrpc":"2.0","id":1,"res"#);
            stage.end(seen.id, EndHow::Complete);
        }),
        ("HTTP 202", "202 to a request", |stage, seen| {
            stage.status(seen.id, 202, Content::Empty, None);
            stage.end(seen.id, EndHow::Complete);
        }),
        ("larger than the limit", "an event over the limit", |stage, seen| {
            stage.status(seen.id, 200, Content::Events, None);
            stage.end(seen.id, EndHow::TooLarge);
        }),
        ("another origin", "a redirect elsewhere", |stage, seen| {
            stage.status(seen.id, 307, Content::Empty, None);
            stage.end(seen.id, EndHow::Forbidden("it redirects to another origin".into()));
        }),
    ];
    for (words, what, play) in plays {
        let mut stage = Stage::greeted();
        stage.client_says(&call(1, "create_note"));
        let seen = stage.takes();
        play(&mut stage, &seen);
        let answer = stage.client_reads().expect(what);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(words), "{what}: {text}");
        assert!(stage.heard.iter().any(|line| line.contains("failed after") && line.contains(words)), "{what}");
        stage.pass(Duration::from_secs(120));
        assert!(stage.seen.is_empty(), "{what}");
    }
}

#[test]
fn an_answer_under_its_own_label_is_nothing_to_speak_of_and_neither_is_a_page_that_is_none() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.answer(&seen, "{}");
    stage.client_says(&call(2, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Other, None);
    stage.body(seen.id, "<html>");
    stage.end(seen.id, EndHow::Complete);
    assert!(!stage.heard.iter().any(|line| line.contains("Content-Type")), "{:?}", stage.heard);
}

#[test]
fn a_body_that_cannot_be_read_is_judged_with_its_exchange() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    stage.status(seen.id, 200, Content::Json, None);
    stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, seen.json()["id"]));
    assert_eq!((stage.client_reads(), stage.aborted.len()), (None, 0), "it is not over yet");
    stage.end(seen.id, EndHow::Complete);
    assert_eq!(outcome(&stage.client_reads().unwrap()), "unknown");
}

#[test]
fn a_broken_question_is_not_taken_for_the_answer_to_the_call_that_it_is_named_like() {
    let mut stage = Stage::greeted();
    stage.client_says(&call(1, "create_note"));
    let seen = stage.takes();
    let id = &seen.json()["id"];
    stage.status(seen.id, 200, Content::Events, None);
    stage.event(seen.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list","params":{{"#));
    assert_eq!((stage.client_reads(), stage.aborted.len()), (None, 0));
    stage.event(seen.id, None, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}
