//! Event streams that are unusual, endless, cut or replayed.

use std::time::{Duration, Instant};

use mendline_faults::{Ending, Rule};
use serde_json::{Value, json};

use crate::client::{Client, failure};
use crate::site::{Site, event_answers};
use crate::sockets::cut_all;

#[test]
fn s42_events_in_single_bytes_with_any_line_end_are_parsed() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("s42_sse_split_crlf_bom"));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn s43_event_over_limit_is_error_and_not_resent() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("s43_event_over_limit").first(1));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("larger than the limit"), "{result}");
    assert_eq!(failure(&result)["retryable"], false, "{result}");
    assert_eq!(site.executions("k"), 1);
    assert_eq!(client.result("b", "lookup", &json!({ "key": "l" }))["content"][0]["text"], "l is 42");
}

#[test]
fn s44_endless_comments_end_at_call_deadline() {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--tool-timeout", "create_note=1500ms"]);
    site.add_fault(Rule::new("s44_comments_only").first(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!(client.result("b", "lookup", &json!({ "key": "l" }))["content"][0]["text"], "l is 42");
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn s45_zero_retry_still_pauses_and_stream_is_resumed() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("s45_retry_absurd").value(0).first(1));
    let begin = Instant::now();
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert!(begin.elapsed() >= Duration::from_millis(100), "{:?}", begin.elapsed());
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call"), counts.resumes), (1, 1, 1));
}

#[test]
fn s45_retry_of_eleven_days_is_bounded_by_call_deadline() {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--tool-timeout", "create_note=1500ms"]);
    site.add_fault(Rule::new("s45_retry_absurd").value(1_000_000_000u64).first(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    assert_eq!((site.executions("k"), site.counts().resumes), (1, 0));
}

/// Starts a call with five steps and cuts its stream in the middle.
fn slow_call_is_cut(site: &Site, client: &mut Client) {
    site.add_fault(Rule::new("t14_reset_mid_body").tool("slow").nth(1));
    let arguments = json!({ "key": "k", "steps": 5, "stepMs": 1 });
    let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": "mine" } });
    client.request("a", "tools/call", &params);
}

/// Returns the progress before the answer, and the answer.
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
fn t14_cut_stream_is_resumed_and_call_is_not_resent() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    slow_call_is_cut(&site, &mut client);
    let (steps, answer) = steps_and_answer(&mut client);
    assert_eq!((steps, &answer["result"]["content"][0]["text"]), (vec![1, 2, 3, 4, 5], &json!("k is done")));
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call"), counts.resumes), (1, 1, 1));
}

#[test]
fn s46_events_replayed_after_resumption_reach_client_once() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("s46_replays_seen_events"));
    slow_call_is_cut(&site, &mut client);
    let (steps, answer) = steps_and_answer(&mut client);
    assert_eq!((steps, &answer["result"]["content"][0]["text"]), (vec![1, 2, 3, 4, 5], &json!("k is done")));
    assert_eq!((site.executions("k"), site.counts().resumes), (1, 1));
}

#[test]
fn s47_refused_resumption_resends_read() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("s47_resume_refused"));
    site.add_fault(Rule::new("t14_reset_mid_body").tool("lookup").nth(1));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "k is 42", "{result}");
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.resumes), (2, 1));
}

/// Cuts the response of an unsafe call and refuses its resumption with this status. The call ran and must not run
/// again.
fn unsafe_call_is_unknown_after_a_resumption_met(status: u16, resumptions: u64) {
    let site = Site::start(event_answers());
    let mut client = site.client(&["--resume-attempts", "2"]);
    site.add_fault(Rule::new("s47_resume_refused").value(status));
    site.add_fault(Rule::new("t14_reset_mid_body").tool("create_note").nth(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    let counts = site.counts();
    assert_eq!(
        (counts.executions_of("k"), counts.resumes, counts.messages_of("tools/call")),
        (1, resumptions, 1),
        "{status}"
    );
    assert_eq!(failure(&result)["outcome"], "unknown", "{status}: {result}");
}

#[test]
fn s47_resumption_answered_by_500_leaves_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(500, 2);
}

#[test]
fn s47_resumption_answered_by_405_leaves_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(405, 1);
}

#[test]
fn s47_resumption_answered_by_400_leaves_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(400, 1);
}

#[test]
fn s47_resumption_answered_by_404_leaves_unsafe_call_unknown() {
    unsafe_call_is_unknown_after_a_resumption_met(404, 1);
}

#[test]
fn s47_session_lost_before_resumption_leaves_unsafe_call_unknown() {
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
fn s52_primed_stream_that_always_closes_is_resumed_ten_times() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("s52_prime_then_close_for_ever").value(1));
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    let counts = site.counts();
    assert_eq!((counts.executions_of("k"), counts.messages_of("tools/call"), counts.resumes), (1, 1, 10));
    site.clear();
    // Four times the pause between two resumptions.
    let next = client.result("b", "lookup", &json!({ "key": "l", "delayMs": 500 }));
    assert_eq!(next["content"][0]["text"], "l is 42", "{next}");
    assert_eq!(site.counts().resumes, 10);
}

#[test]
fn s52_read_over_always_closing_stream_is_bounded() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("s52_prime_then_close_for_ever").value(1));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    let counts = site.counts();
    assert!(counts.messages_of("tools/call") <= 3 && counts.resumes <= 30, "{counts:?}");
}
