//! Attempts over HTTP: which count, their pauses, and the failures.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::reason::CutReason;
use std::time::Duration;

use mendline_core::config::{Dialect, OnError};
use mendline_core::port::{Content, ExchangeEnd, Reuse, Verb, Written};
use mendline_core::{Event, Input, LinkState, UpstreamConfig, defaults};
use serde_json::Value;
use stage::NOTES;
use stage::http::{INITIALIZE, Stage, call, complete_handshake, modern, outcome, over_sse};

fn failure(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.mendline/failure"]
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn refused_http2_stream_is_sent_twice() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    for (attempt, reuse) in [(1, Reuse::Any), (2, Reuse::Fresh)] {
        assert_eq!(stage.client_reads(), None, "attempt {attempt}");
        stage.next_request();
        let seen = stage.next_sent();
        assert_eq!(seen.method(), "tools/call", "attempt {attempt}");
        assert!(attempt == 1 || seen.reuse == reuse, "attempt {attempt}");
        stage.end(seen.id, ExchangeEnd::Refused);
    }
    let answer = stage.client_reads().expect("refused on a fresh connection, too");
    assert_eq!((outcome(&answer), &failure(&answer)["attempts"]), ("refused", &2.into()));
    assert_ne!(failure(&answer)["cause"], "outcome_unknown", "it is known");
    stage.advance(Duration::from_secs(60));
    assert!(stage.seen.is_empty());
}

#[test]
fn refused_http2_stream_is_resent() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let refused = stage.next_sent();
    stage.end(refused.id, ExchangeEnd::Refused);
    assert_eq!(stage.client_reads(), None, "it cannot have run");
    stage.next_request();
    let again = stage.next_sent();
    stage.answer(&again, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn call_without_connection_has_made_no_attempt() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.seen.pop_front().expect("a request that gets no connection");
    stage.advance(defaults::CALL);
    assert_eq!(failure(&stage.client_reads().unwrap())["attempts"], 0);

    let (mut stage, _) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let post = stage.seen.pop_front().expect("a post");
    let how = ExchangeEnd::Forbidden(stage::expired_certificate());
    stage.input(Input::End { exchange: post.id, how, written: Written::Nothing });
    let answer = stage.client_reads().unwrap();
    assert_eq!((&failure(&answer)["attempts"], &failure(&answer)["cause"]), (&0.into(), &"unavailable".into()));
}

#[test]
fn forbidden_connection_parks_server() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.seen.pop_front().unwrap();
    let how = ExchangeEnd::Forbidden(stage::expired_certificate());
    stage.input(Input::End { exchange: seen.id, how, written: Written::Nothing });
    let answer = stage.client_reads().expect("answered at once");
    assert_eq!(failure(&answer)["cause"], "parked");
    assert!(text(&answer).contains("its certificate has expired"), "{answer}");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Parked));
}

#[test]
fn waiting_call_reports_missing_connection_like_probing_call() {
    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    config.timeouts.call = Duration::from_secs(3);
    let mut stage = Stage::of(config);
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(&call(2, "create_note"));
    stage.advance(Duration::from_secs(3));
    for id in 1..=2 {
        let answer = stage.client_reads().unwrap();
        assert_eq!((&answer["id"], outcome(&answer)), (&id.into(), "not_sent"));
        assert!(text(&answer).contains("no connection has been made yet"), "{answer}");
    }
}

#[test]
fn call_waiting_for_probing_subscription_reports_missing_connection() {
    let mut config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    config.timeouts.call = Duration::from_secs(3);
    let mut stage = Stage::of(config);
    stage.client_sends(&modern(1, "subscriptions/listen", ""));
    stage.client_sends(&call(2, "create_note"));
    stage.advance(Duration::from_secs(3));
    let answer = stage.client_reads().expect("its time is over");
    assert_eq!((&answer["id"], outcome(&answer)), (&2.into(), "not_sent"));
    assert!(text(&answer).contains("no connection has been made yet"), "{answer}");
}

#[test]
fn failure_names_status_and_html_page() {
    for (content, is_page) in [(Content::Empty, false), (Content::Json, false), (Content::Other, true)] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        stage.status(seen.id, 403, content, None);
        stage.end(seen.id, ExchangeEnd::Complete);
        stage.answer_probe();
        let answer = stage.client_reads().unwrap();
        assert!(text(&answer).contains("the server answered HTTP 403"), "{answer}");
        assert_eq!(failure(&answer)["cause"], "refused", "{content:?}");
        assert_eq!(text(&answer).contains("something that is not JSON"), is_page, "{content:?}: {answer}");
    }
}

#[test]
fn cut_event_stream_is_reported_as_cut() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.status(seen.id, 200, Content::Events, None);
    stage.end(seen.id, ExchangeEnd::Cut(CutReason::Reset));
    let answer = stage.client_reads().unwrap();
    assert!(outcome(&answer) == "unknown" && text(&answer).contains("the connection was reset"), "{answer}");
}

#[test]
fn failed_reinitialization_is_reported_with_reason() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let lost = stage.next_sent();
    stage.status(lost.id, 404, Content::Empty, None);
    stage.end(lost.id, ExchangeEnd::Complete);
    stage.confirm_loss(404);
    let handshake = stage.next_sent();
    stage.status(handshake.id, 503, Content::Empty, None);
    stage.end(handshake.id, ExchangeEnd::Complete);
    let words = "session could not be replayed: the server answered HTTP 503";
    assert!(stage.log.iter().any(|line| line == words), "{:?}", stage.log);
}

/// Creates a stage whose `initialized` is in flight `cuts` times and cut each time. A call waits for it.
fn with_cut_initialized(cuts: u32) -> Stage {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.answer_initialize("s1");
    stage.client_reads().unwrap();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    stage.client_sends(&call(1, "create_note"));
    for cut in 0..cuts {
        let note = stage.next_sent();
        assert_eq!((note.method().as_str(), note.header("mcp-session-id")), ("notifications/initialized", Some("s1")));
        assert_eq!(note.reuse, if cut == 0 { Reuse::Any } else { Reuse::Fresh });
        stage.end(note.id, ExchangeEnd::Cut(CutReason::Reset));
    }
    stage
}

#[test]
fn r07_cut_initialized_is_resent_in_same_session() {
    let mut stage = with_cut_initialized(1);
    assert_eq!((stage.seen.len(), stage.seen[0].reuse), (1, Reuse::Fresh), "the call still waits for it");
    complete_handshake(&mut stage);
    let seen = stage.next_sent();
    assert_eq!((seen.method().as_str(), seen.header("mcp-session-id")), ("tools/call", Some("s1")));
}

#[test]
fn repeatedly_cut_initialized_repeats_handshake_with_reason() {
    let mut stage = with_cut_initialized(defaults::INITIALIZED_ATTEMPTS);
    assert!(stage.seen.is_empty(), "no message is sent after an incomplete handshake");
    let words = "session could not be replayed: the connection was reset";
    assert!(stage.log.iter().any(|line| line == words), "{:?}", stage.log);
    stage.advance(Duration::from_secs(1));
    stage.answer_initialize("s2");
    complete_handshake(&mut stage);
    assert_eq!(stage.next_sent().header("mcp-session-id"), Some("s2"));
}

#[test]
fn partly_written_request_is_resent_with_doubling_delay() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let seen = stage.next_sent();
        let how = ExchangeEnd::Cut(CutReason::Reset);
        stage.input(Input::End { exchange: seen.id, how, written: Written::Partial });
        stage.answer_probe();
        pauses.push(stage.next_request().as_millis());
    }
    for (pause, least) in pauses.iter().zip([0, 100, 200, 400, 800]) {
        assert!((least..=least.max(100) * 2 + 1).contains(pause), "{pauses:?}");
    }
}

/// Returns the shortest and the longest pause before the second and the third attempt of many calls that fail like
/// `fail`, counted from the verdict.
fn pauses(mut stage: Stage, request: &str, fail: impl Fn(&mut Stage, u32)) -> [(Duration, Duration); 2] {
    let mut pauses = [(Duration::MAX, Duration::ZERO); 2];
    for _ in 0..20 {
        stage.client_sends(request);
        for (attempt, (shortest, longest)) in (1..).zip(&mut pauses) {
            fail(&mut stage, attempt);
            let pause = stage.next_request();
            (*shortest, *longest) = (pause.min(*shortest), pause.max(*longest));
        }
        let seen = stage.next_sent();
        stage.answer(&seen, "{}");
        stage.client_reads().unwrap();
        stage.advance(defaults::BUDGET_REGROWTH * 2);
    }
    pauses
}

/// Checks a pause with equal jitter: half of it is fixed. Of many pauses one is in the upper part.
fn assert_jitter((shortest, longest): (Duration, Duration), delay: Duration) {
    let tick = Duration::from_millis(1);
    assert!(shortest + tick >= delay / 2 && longest <= delay + tick, "{shortest:?} to {longest:?}");
    assert!(longest >= delay * 6 / 10, "{longest:?}");
}

fn slowly(notes: &mut UpstreamConfig) {
    (notes.retry.initial, notes.keep_alive) = (Duration::from_secs(1), None);
}

#[test]
fn pauses_of_failed_call_double_with_equal_jitter() {
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#;
    let pauses = pauses(Stage::with(Dialect::Auto, slowly).initialize_session(), list, |stage, _| {
        let seen = stage.next_sent();
        stage.answer_overloaded(&seen, 503, None);
        stage.answer_probe();
    });
    assert_jitter(pauses[0], Duration::from_secs(1));
    assert_jitter(pauses[1], Duration::from_secs(2));
}

#[test]
fn pause_after_header_refusal_counts_earlier_attempts() {
    let mut stage = Stage::with(Dialect::Auto, slowly);
    stage.client_sends(&modern(1, "resources/list", ""));
    let proof = stage.next_sent();
    stage.answer(&proof, "{}");
    stage.client_reads().unwrap();
    let pauses = pauses(stage, &modern(1, "resources/list", ""), |stage, attempt| {
        let seen = stage.next_sent();
        if attempt == 1 {
            stage.answer_overloaded(&seen, 503, None);
            stage.answer_probe();
        } else {
            let error = r#"{"code":-32020,"message":"Header mismatch"}"#;
            stage.status(seen.id, 400, Content::Json, None);
            stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#));
            stage.end(seen.id, ExchangeEnd::Complete);
        }
    });
    assert_jitter(pauses[1], Duration::from_secs(2));
}

#[test]
fn timed_out_legacy_call_is_cancelled_by_notification() {
    let cancelled = |stage: &Stage| {
        let posts = stage.seen.iter().filter(|seen| seen.ask.verb == Verb::Post);
        posts.filter(|seen| seen.method() == "notifications/cancelled").count()
    };
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "slow"));
    stage.next_sent();
    stage.advance(defaults::CALL);
    assert_eq!((outcome(&stage.client_reads().unwrap()), cancelled(&stage)), ("unknown", 1));

    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "slow"));
    stage.next_sent();
    stage.advance(defaults::CALL - Duration::from_secs(1));
    stage.client_sends(&call(2, "create_note"));
    stage.refuse_connection();
    for _ in 0..200 {
        if !stage.seen.is_empty() {
            assert_eq!(cancelled(&stage), 0, "what cannot arrive is not sent");
            stage.refuse_connection();
        }
        stage.advance(Duration::from_millis(10));
    }
    let answer = stage.client_reads().expect("its time is over");
    assert_eq!((&answer["id"], outcome(&answer)), (&1.into(), "unknown"));
    stage.next_request();
    stage.next_sent();
    assert_eq!(cancelled(&stage), 0, "nor kept for later");
}

#[test]
fn modern_refusal_with_own_error_is_not_legacy() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "tools/list", ""));
    let seen = stage.next_sent();
    stage.status(seen.id, 400, Content::Json, None);
    stage.body(seen.id, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32021,"message":"Missing capability"}}"#);
    stage.end(seen.id, ExchangeEnd::Complete);
    let answer = stage.client_reads().unwrap();
    assert_eq!(answer["error"]["code"], -32021, "the server's own error is the answer: {answer}");
}

#[test]
fn retry_after_is_kept() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let busy = stage.next_sent();
    stage.answer_overloaded(&busy, 429, Some(7));
    assert!(stage.next_request() >= Duration::from_secs(7));
}

#[test]
fn timed_out_attempt_is_cancelled_only_where_server_expects_it() {
    let change = |notes: &mut UpstreamConfig| {
        (notes.keep_alive, notes.timeouts.attempt) = (None, Some(Duration::from_secs(5)));
    };
    let is_cancellation =
        |seen: &stage::http::SentRequest| seen.ask.verb == Verb::Post && seen.method() == "notifications/cancelled";
    // It did not reach the server.
    let mut stage = Stage::with(Dialect::Auto, change).initialize_session();
    stage.client_sends(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:1"}}"#);
    stage.seen.pop_front().unwrap();
    stage.advance(Duration::from_secs(5));
    assert!(!stage.seen.iter().any(is_cancellation));
    // A modern request is cancelled by its abort.
    let mut stage = Stage::with(Dialect::Auto, change);
    stage.client_sends(&modern(1, "resources/read", r#""uri":"note:1","#));
    let seen = stage.next_sent();
    stage.advance(Duration::from_secs(5));
    assert!(stage.aborted.contains(&seen.id) && !stage.seen.iter().any(is_cancellation));
}

/// Refuses every request that waits, with an invalid certificate.
fn refuse_certificate(stage: &mut Stage) {
    while let Some(seen) = stage.seen.pop_front() {
        let how = ExchangeEnd::Forbidden(stage::expired_certificate());
        stage.input(Input::End { exchange: seen.id, how, written: Written::Nothing });
    }
}

/// The number of reports that the server is parked, without repetitions.
fn parked_reports(stage: &Stage) -> usize {
    let is_report =
        |event: &&Event| matches!(event, Event::LinkStateChanged { to: LinkState::Parked, repeated: false, .. });
    stage.events.iter().filter(is_report).count()
}

#[test]
fn parked_server_is_reported_once_an_hour() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    refuse_certificate(&mut stage);
    assert_eq!(parked_reports(&stage), 1);
    let end = stage.now + defaults::PARKED_REPORT;
    while stage.now < end {
        assert_eq!(parked_reports(&stage), 1, "{:?}", stage.now);
        stage.advance(Duration::from_secs(1));
        if stage.now < end {
            refuse_certificate(&mut stage);
        }
    }
    stage.input(Input::Reconnect { upstream: NOTES });
    refuse_certificate(&mut stage);
    assert_eq!(parked_reports(&stage), 2);
}

#[test]
fn parked_server_is_reported_again_after_it_was_up() {
    let mut stage = Stage::initialized();
    for reports in 1..=2 {
        stage.client_sends(&call(1, "create_note"));
        refuse_certificate(&mut stage);
        assert_eq!(parked_reports(&stage), reports);
        stage.input(Input::Reconnect { upstream: NOTES });
        stage.run(Duration::from_secs(5), Stage::serve);
        assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    }
}

#[test]
fn pauses_after_timed_out_attempts_double() {
    let change = |notes: &mut UpstreamConfig| {
        slowly(notes);
        notes.timeouts.attempt = Some(Duration::from_secs(5));
    };
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#;
    let pauses = pauses(Stage::with(Dialect::Auto, change).initialize_session(), list, |stage, _| {
        stage.next_sent();
        stage.advance(Duration::from_secs(5));
        stage.seen.clear();
    });
    assert_jitter(pauses[1], Duration::from_secs(2));
}

#[test]
fn pauses_of_call_refused_by_live_session_double() {
    let change = |notes: &mut UpstreamConfig| {
        slowly(notes);
        notes.retry.statuses = [(404, OnError::Always)].into();
    };
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#;
    let pauses = pauses(Stage::with(Dialect::Auto, change).initialize_session(), list, |stage, _| {
        let seen = stage.next_sent();
        stage.status(seen.id, 404, Content::Empty, None);
        stage.end(seen.id, ExchangeEnd::Complete);
        let ping = stage.next_sent();
        stage.answer(&ping, "{}");
    });
    assert_jitter(pauses[1], Duration::from_secs(2));
}
