//! Streams of events that are odd, endless, cut or told twice.

use std::time::{Duration, Instant};

use mendline_faults::{Ending, Rule};
use serde_json::{Value, json};

use crate::client::{Client, failure};
use crate::site::{Site, event_answers};
use crate::sockets::cut_all;

#[test]
fn s42_events_in_single_bytes_with_odd_line_ends_are_understood() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s42_sse_split_crlf_bom"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn s43_an_event_over_the_limit_is_a_clear_answer_and_no_reason_to_call_again() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s43_event_over_limit").first(1));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("larger than the limit"), "{result}");
    assert_eq!(failure(&result)["retryable"], false, "{result}");
    assert_eq!(site.executions("k"), 1);
    assert_eq!(client.result("b", "lookup", &json!({ "key": "l" }))["content"][0]["text"], "l is 42");
}

#[test]
fn s44_a_stream_of_comments_costs_the_calls_deadline_and_no_more() {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--tool-timeout", "create_note=1500ms"]);
    site.breaks(Rule::new("s44_comments_only").first(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!(client.result("b", "lookup", &json!({ "key": "l" }))["content"][0]["text"], "l is 42");
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn s45_a_retry_of_nothing_is_still_a_pause_and_the_answer_is_fetched() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s45_retry_absurd").value(0).first(1));
    let begin = Instant::now();
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert!(begin.elapsed() >= Duration::from_millis(100), "{:?}", begin.elapsed());
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call"), counts.resumes), (1, 1, 1));
}

#[test]
fn s45_a_retry_of_eleven_days_does_not_outlast_the_call() {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--tool-timeout", "create_note=1500ms"]);
    site.breaks(Rule::new("s45_retry_absurd").value(1_000_000_000u64).first(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!((site.executions("k"), site.counts().resumes), (1, 0));
}

/// A call that reports five steps, cut in the middle of its stream.
fn slow_call_is_cut(site: &Site, client: &mut Client) {
    site.breaks(Rule::new("t14_reset_mid_body").tool("slow").nth(1));
    let arguments = json!({ "key": "k", "steps": 5, "stepMs": 1 });
    let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": "mine" } });
    client.request("a", "tools/call", &params);
}

/// The steps that are reported before the answer, and the answer.
fn steps_and_answer(client: &mut Client) -> (Vec<u64>, Value) {
    let mut steps = Vec::new();
    loop {
        let message: Value = serde_json::from_str(&client.line()).unwrap();
        match message["params"]["progress"].as_u64() {
            Some(step) => steps.push(step),
            None => return (steps, message),
        }
    }
}

#[test]
fn t14_a_stream_that_is_cut_is_resumed_where_it_broke_and_the_call_is_not_sent_again() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    slow_call_is_cut(&site, &mut client);
    let (steps, answer) = steps_and_answer(&mut client);
    assert_eq!((steps, &answer["result"]["content"][0]["text"]), (vec![1, 2, 3, 4, 5], &json!("k is done")));
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call"), counts.resumes), (1, 1, 1));
}

#[test]
fn s46_what_is_told_again_after_a_resumption_reaches_the_client_once() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s46_replays_seen_events"));
    slow_call_is_cut(&site, &mut client);
    let (steps, answer) = steps_and_answer(&mut client);
    assert_eq!((steps, &answer["result"]["content"][0]["text"]), (vec![1, 2, 3, 4, 5], &json!("k is done")));
    assert_eq!((site.executions("k"), site.counts().resumes), (1, 1));
}

#[test]
fn s47_a_refused_resumption_leaves_a_read_to_be_sent_again() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s47_resume_refused"));
    site.breaks(Rule::new("t14_reset_mid_body").tool("lookup").nth(1));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42", "{result}");
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.resumes), (2, 1));
}

/// An unsafe call whose response is cut, and whose resumption is refused with this status: it ran, and must not run again.
fn unsafe_call_is_unknown_after_a_resumption_met(status: u16) {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s47_resume_refused").value(status));
    site.breaks(Rule::new("t14_reset_mid_body").tool("create_note").nth(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.resumes, counts.messages_of("tools/call")), (1, 1, 1), "{status}");
    assert_eq!(failure(&result)["outcome"], "unknown", "{status}: {result}");
}

#[test]
fn s47_a_resumption_that_meets_a_server_error_leaves_an_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(500);
}

#[test]
fn s47_a_resumption_that_meets_a_405_leaves_an_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(405);
}

#[test]
fn s47_a_resumption_that_meets_a_400_leaves_an_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(400);
}

#[test]
fn s47_a_resumption_that_meets_a_404_leaves_an_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(404);
}

#[test]
fn s47_an_unsafe_call_whose_session_was_lost_before_its_response_could_be_resumed_is_unknown() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    client.call("a", "create_note", &json!({ "key": "k", "delayMs": 600_000 }));
    site.until("it runs", |counts| counts.executions_of("k") == 1);
    site.forget_sessions();
    cut_all(&site, Ending::Reset);
    let result = client.answer("a")["result"].clone();
    assert_eq!((site.executions("k"), site.counts().messages_of("tools/call")), (1, 1), "{result}");
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!(client.result("b", "create_note", &json!({ "key": "l" }))["content"][0]["text"], "wrote l");
}

#[test]
fn s52_a_stream_that_is_primed_and_closed_for_ever_is_asked_for_ten_times_and_never_after() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s52_prime_then_close_for_ever").value(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call"), counts.resumes), (1, 1, 10));
    site.clear();
    // Four times as long as the pause between two of them.
    let next = client.result("b", "lookup", &json!({ "key": "l", "delayMs": 500 }));
    assert_eq!(next["content"][0]["text"], "l is 42", "{next}");
    assert_eq!(site.counts().resumes, 10);
}

#[test]
fn s52_a_read_that_meets_it_is_bounded_as_well() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.breaks(Rule::new("s52_prime_then_close_for_ever").value(1));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    let counts = site.counts();
    assert!(counts.messages_of("tools/call") <= 3 && counts.resumes <= 30, "{counts:?}");
}
