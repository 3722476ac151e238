//! Sessions that the server loses: Mendline re-initializes once, and no call runs twice.

use mendline_faults::Rule;
use serde_json::{Value, json};

use crate::client::{SOON, eventually};
use crate::site::{Site, event_answers, initialized, json_answers};

/// Every form in which servers report a lost session.
const LOSSES: [&str; 3] = ["h34_404_session_expired", "h35b_400_session_lost", "session_lost_in_body"];

#[test]
fn h34_h35b_unsafe_call_in_lost_session_runs_once_in_next() {
    for fault in LOSSES {
        for settings in [json_answers(), event_answers()] {
            let site = Site::start(settings);
            let mut client = site.client(&[]);
            site.add_fault(Rule::new(fault).tool("create_note").nth(1));
            let result = client.result("a", "create_note", &json!({ "key": "k" }));
            assert_eq!(result["content"][0]["text"], "wrote k", "{fault}: {result}");
            let counts = site.counts();
            assert_eq!((counts.executions_of("k"), counts.struck_by(fault)), (1, 1), "{fault}");
            assert_eq!((counts.sessions_opened, counts.messages_of("initialize")), (2, 2), "{fault}");
            assert_eq!(counts.messages_of("notifications/initialized"), 2, "{fault}");
        }
    }
}

#[test]
fn h34_session_lost_under_many_calls_is_replaced_once() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.until("the GET stream is open", |counts| counts.gets == 1);
    site.forget_sessions();
    for number in 0..8 {
        client.call(&number.to_string(), "create_note", &json!({ "key": format!("k{number}") }));
    }
    for _ in 0..8 {
        let answer: Value = serde_json::from_str(&client.line()).unwrap();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    let counts = site.counts();
    assert_eq!((counts.sessions_opened, counts.messages_of("initialize")), (2, 2));
    assert!((0..8).all(|number| counts.executions_of(&format!("k{number}")) == 1), "{counts:?}");
}

#[test]
fn h34_server_losing_every_session_is_reinitialized_bounded_times() {
    for fault in LOSSES {
        let site = Site::start(json_answers());
        let mut client = site.client(&[]);
        site.add_fault(Rule::new(fault).tool("create_note"));
        client.call("a", "create_note", &json!({ "key": "k" }));
        let answer = client.answer("a");
        assert!(answer.get("error").is_some() || answer["result"]["isError"] == true, "{fault}: {answer}");
        let counts = site.counts();
        assert!(counts.messages_of("tools/call") <= 3 && counts.messages_of("initialize") <= 4, "{fault}: {counts:?}");
        assert_eq!(counts.executions_of("k"), 0, "{fault}");
        let next = client.result("b", "lookup", &json!({ "key": "l" }));
        assert_eq!(next["content"][0]["text"], "l is 42", "{fault}: {next}");
    }
}

#[test]
fn h34_new_session_gets_new_get_stream() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.until("the first stream is open", |counts| counts.gets == 1);
    site.add_fault(Rule::new("h34_404_session_expired").tool("lookup").nth(1));
    assert_eq!(client.result("a", "lookup", &json!({ "key": "k" }))["content"][0]["text"], "k is 42");
    let first = site.oracle().seen()[1].session.clone();
    eventually("the next stream is open in the new session", SOON, || {
        site.oracle().seen().iter().any(|seen| seen.verb == "GET" && seen.session != first)
    });
    site.notify("notifications/prompts/list_changed", &json!({}));
    let notice: Value = serde_json::from_str(&client.line()).unwrap();
    assert_eq!(notice["method"], "notifications/prompts/list_changed");
}

#[test]
fn ended_sse_stream_is_reinitialized() {
    let site = Site::start(json_answers());
    let mut client = initialized(&site.sse_url(), &[]);
    site.forget_sessions();
    site.until("the next stream is open", |counts| counts.sessions_opened == 2);
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!((site.executions("k"), site.counts().sessions_opened), (1, 2));
}

#[test]
fn h34_unsafe_call_in_lost_sse_session_is_resent_or_unknown() {
    let site = Site::start(json_answers());
    let mut client = initialized(&site.sse_url(), &["--transport", "sse"]);
    site.forget_sessions();
    client.call("a", "create_note", &json!({ "key": "k" }));
    let answer = client.answer("a");
    // The refusal of the POST and the end of the stream race. In both cases the call does not run twice, and an unknown
    // outcome is reported.
    match answer["result"]["isError"].as_bool() {
        Some(true) => {
            assert_eq!(answer["result"]["_meta"]["dev.mendline/failure"]["outcome"], "unknown", "{answer}");
            assert_eq!(site.executions("k"), 0);
        }
        _ => {
            assert_eq!(answer["result"]["content"][0]["text"], "wrote k", "{answer}");
            assert_eq!((site.executions("k"), site.counts().sessions_opened), (1, 2));
        }
    }
}
