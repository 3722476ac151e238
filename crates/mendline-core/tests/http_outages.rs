//! Outages over HTTP: all forms are handled alike, and probes find their end.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{Dialect, Startup, ToolPolicy};
use mendline_core::policy::effect::Effect;
use mendline_core::port::{Change, Content, ExchangeEnd, Verb, Written};
use mendline_core::reason::{ConnectError, CutReason};
use mendline_core::{Event, Input, LinkState, Moment, UpstreamConfig, defaults};
use serde_json::Value;
use stage::NOTES;
use stage::http::{
    INITIALIZE, OUTAGES, Outage, SentRequest, Stage, call, complete_handshake, endpoint, modern, outcome, over_sse,
};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
/// The longest time until the end of an outage is found; handshakes take no time here.
const FOUND: Duration = Duration::from_millis(2_500);

fn read(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/read","params":{{"uri":"file:///a"}}}}"#)
}

fn failure(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.mendline/failure"]
}

/// The forms of outage in which the server refuses a call: it did not run.
fn is_refusal(form: &str) -> bool {
    matches!(form, "a page with 404" | "a redirect to a login page")
}

fn is_call(seen: &SentRequest) -> bool {
    seen.ask.verb == Verb::Post && seen.json()["method"] == "tools/call"
}

#[test]
fn r01_read_waits_for_end_of_every_outage() {
    for (form, fail) in OUTAGES {
        let mut stage = Stage::initialized();
        stage.client_sends(&read(1));
        let during = stage.run(Duration::from_secs(20), fail);
        assert_eq!(during, [], "{form}: it waits");
        let end = stage.now;
        let after = stage.run(Duration::from_secs(10), Stage::serve);
        let [(at, answer)] = &after[..] else { panic!("{form}: one answer, not {after:?}") };
        assert_eq!((&answer["id"], &answer["result"]), (&1.into(), &serde_json::json!({})), "{form}");
        assert!(at.since(end) <= FOUND, "{form}: {:?}", at.since(end));
    }
}

#[test]
fn r01_read_in_too_long_outage_fails_after_recovery_time() {
    for (form, fail) in OUTAGES {
        let mut stage = Stage::initialized();
        stage.client_sends(&read(1));
        let began = stage.now;
        let read = stage.run(defaults::RECOVERY + Duration::from_secs(5), fail);
        let [(at, answer)] = &read[..] else { panic!("{form}: one answer, not {read:?}") };
        assert_eq!(answer["error"]["data"]["cause"], "unavailable", "{form}: {answer}");
        let waited = at.since(began);
        let least = defaults::RECOVERY - Duration::from_millis(100);
        assert!((least..=defaults::RECOVERY + Duration::from_millis(100)).contains(&waited), "{form}: {waited:?}");
    }
}

#[test]
fn r01_sent_unsafe_call_is_unknown_in_outage() {
    for (form, fail) in OUTAGES {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let mut received = 0;
        let during = stage.run(Duration::from_secs(10), |stage, seen| {
            received += u32::from(is_call(seen));
            fail(stage, seen);
        });
        assert_eq!(received, 1, "{form}: probes are never calls of a client");
        let mut served = 0;
        let after = stage.run(Duration::from_secs(10), |stage, seen| {
            served += u32::from(is_call(seen));
            stage.serve(seen);
        });
        if is_refusal(form) {
            // It was not processed, so it waits like an unsent call.
            assert_eq!((during.len(), after.len(), served), (0, 1, 1), "{form}: {during:?} {after:?}");
            assert_eq!(after[0].1["result"], serde_json::json!({}), "{form}");
        } else {
            assert_eq!((during.len(), after.len(), served), (1, 0, 0), "{form}: {during:?} {after:?}");
            assert_eq!((during[0].0, outcome(&during[0].1)), (Moment::ZERO, "unknown"), "{form}");
        }
    }
}

#[test]
fn r01_unsent_unsafe_call_waits_for_end_of_outage() {
    for (form, fail) in OUTAGES {
        let mut stage = Stage::initialized();
        stage.client_sends(&read(1));
        // The outage is known before the call arrives.
        stage.run(Duration::from_secs(2), fail);
        assert_ne!(stage.engine.link_state(NOTES), Some(LinkState::Up), "{form}");
        stage.client_sends(&call(2, "create_note"));
        let mut received = 0;
        let during = stage.run(Duration::from_secs(10), |stage, seen| {
            received += u32::from(is_call(seen));
            fail(stage, seen);
        });
        assert_eq!((during.len(), received), (0, 0), "{form}: {during:?}");
        let after = stage.run(Duration::from_secs(10), |stage, seen| {
            received += u32::from(is_call(seen));
            stage.serve(seen);
        });
        assert_eq!(received, 1, "{form}");
        assert!(after.iter().all(|(_, answer)| answer["result"] == serde_json::json!({})), "{form}: {after:?}");
        assert_eq!(after.len(), 2, "{form}: {after:?}");
    }
}

fn with_broken_tool() -> Stage {
    let read = ToolPolicy { effect: Some(Effect::Read), ..ToolPolicy::default() };
    let change = |notes: &mut UpstreamConfig| {
        (notes.tools, notes.keep_alive) = ([("broken".into(), read)].into(), None);
    };
    Stage::with(Dialect::Auto, change).initialize_session()
}

/// Answers all but the broken tool.
fn break_tool(stage: &mut Stage, seen: &SentRequest) {
    match is_call(seen) && seen.json()["params"]["name"] == "broken" {
        true => stage.page(seen, 500),
        false => stage.serve(seen),
    }
}

#[test]
fn r01_always_failing_tool_is_sent_three_times() {
    let mut stage = with_broken_tool();
    stage.client_sends(&call(1, "broken"));
    let mut received = 0;
    let read = stage.run(Duration::from_secs(10), |stage, seen| {
        received += u32::from(is_call(seen));
        break_tool(stage, seen);
    });
    let [(at, answer)] = &read[..] else { panic!("one answer, not {read:?}") };
    assert_eq!((received, &failure(answer)["attempts"], outcome(answer)), (3, &3.into(), "unknown"), "{answer}");
    assert!(at.since(Moment::ZERO) <= Duration::from_secs(3), "{at:?}");
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
}

#[test]
fn r01_always_failing_tool_delays_no_other() {
    let mut stage = with_broken_tool();
    let mut answered = 0;
    for id in 0..200 {
        stage.client_sends(&call(1_000 + id, "broken"));
        stage.client_sends(&call(id, "create_note"));
        let sent = stage.now;
        let read = stage.run(Duration::from_millis(50), break_tool);
        let own = read.iter().find(|(_, answer)| answer["id"] == id);
        let (at, answer) = own.unwrap_or_else(|| panic!("call {id} is delayed"));
        assert_eq!((*at, &answer["result"]), (sent, &serde_json::json!({})), "call {id}");
        answered += read.iter().filter(|(_, answer)| answer["id"].as_u64() >= Some(1_000)).count();
    }
    answered += stage.run(Duration::from_secs(10), break_tool).len();
    assert_eq!(answered, 200, "each call of the broken tool is answered, too");
}

/// The forms of outage at a first handshake.
fn forms_at_start() -> Vec<(&'static str, Outage)> {
    let mut forms = OUTAGES.to_vec();
    forms.push(("no connection", |stage, seen| {
        let how = ExchangeEnd::NoConnection(ConnectError::Refused { target: "notes.test:443".to_owned() });
        stage.input(Input::End { exchange: seen.id, how, written: Written::Nothing });
    }));
    forms.push(("HTTP 429", |stage, seen| stage.answer_overloaded(seen, 429, None)));
    forms
}

#[test]
fn r02_first_handshake_in_outage_is_answered_provisionally() {
    for (form, fail) in forms_at_start() {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(INITIALIZE);
        let early = stage.run(defaults::GRACE_AFTER_FAILURE - Duration::from_millis(20), fail);
        assert_eq!(early, [], "{form}: it has time to pass");
        let read = stage.run(Duration::from_millis(40), fail);
        let [(_, answer)] = &read[..] else { panic!("{form}: an answer, not {read:?}") };
        assert_eq!(answer["result"]["serverInfo"]["name"], "notes", "{form}: {answer}");
        let instructions = answer["result"]["instructions"].as_str().unwrap();
        let words = match form {
            "a reset" => "reset",
            "a FIN" => "closed",
            "a page with 200" => "not JSON-RPC",
            "a redirect to a login page" => "https://login.example",
            "a page with 404" => "404",
            "no connection" => "nothing listens on notes.test:443",
            // See the next test.
            "HTTP 429" => "",
            status => status,
        };
        assert!(instructions.contains(words), "{form}: {instructions}");
        stage.client_sends(INITIALIZED);
        stage.run(Duration::from_secs(5), fail);
        stage.client_sends(&call(1, "create_note"));
        assert_eq!(stage.run(Duration::from_secs(5), fail), [], "{form}: the call waits");
        let end = stage.now;
        let after = stage.run(Duration::from_secs(10), Stage::serve);
        let answer = after.iter().find(|(_, message)| message["id"] == 1);
        let (at, answer) = answer.unwrap_or_else(|| panic!("{form}: {after:?}"));
        assert_eq!(answer["result"], serde_json::json!({}), "{form}");
        assert!(at.since(end) <= FOUND, "{form}: {:?}", at.since(end));
    }
}

#[test]
fn r02_provisional_answer_names_overload() {
    for (status, hint) in [(429, None), (429, Some(30)), (503, Some(30))] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(INITIALIZE);
        let refuse = |stage: &mut Stage, seen: &SentRequest| stage.answer_overloaded(seen, status, hint);
        let read = stage.run(defaults::GRACE_AFTER_FAILURE + Duration::from_millis(20), refuse);
        let [(_, answer)] = &read[..] else { panic!("one answer, not {read:?}") };
        let instructions = answer["result"]["instructions"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(!instructions.contains("it has not answered yet"), "HTTP {status}, {hint:?}: {instructions}");
    }
}

#[test]
fn r02_missing_login_at_first_handshake_is_answered_provisionally() {
    let refuse = |stage: &mut Stage, seen: &SentRequest| stage.page(seen, 401);
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let read = stage.run(defaults::GRACE_AFTER_FAILURE + Duration::from_millis(20), refuse);
    let [(at, answer)] = &read[..] else { panic!("one answer, not {read:?}") };
    assert!(at.since(Moment::ZERO) >= defaults::GRACE_AFTER_FAILURE, "{at:?}");
    let instructions = answer["result"]["instructions"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(instructions.contains("HTTP 401"), "{instructions}");
    stage.client_sends(INITIALIZED);
    stage.client_sends(&call(1, "create_note"));
    let rejected = stage.run(Duration::from_secs(1), refuse);
    assert_eq!(failure(&rejected[0].1)["cause"], "needs_login", "{rejected:?}");
    // The server accepts it now, which a handshake in the background finds out.
    stage.run(defaults::LOGIN_PROBE_CAP, Stage::serve);
    assert!(stage.events.iter().any(|event| matches!(event, Event::LoginAccepted { .. })), "{:?}", stage.log);
    stage.client_sends(&call(2, "create_note"));
    let read = stage.run(Duration::from_secs(1), Stage::serve);
    assert_eq!(read[0].1["result"], serde_json::json!({}), "{read:?}");
}

#[test]
fn r02_first_handshake_uses_own_answer_of_server_within_grace() {
    for (form, fail) in forms_at_start() {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(INITIALIZE);
        assert_eq!(stage.run(Duration::from_millis(500), fail), [], "{form}");
        let read = stage.run(Duration::from_secs(3), Stage::serve);
        let [(_, answer)] = &read[..] else { panic!("{form}: an answer, not {read:?}") };
        assert_eq!(answer["result"], serde_json::json!({ "protocolVersion": "2025-11-25" }), "{form}");
    }
}

#[test]
fn r03_first_handshake_is_repeated_on_new_connection_after_timeout() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let swallowed = stage.next_sent();
    stage.advance(defaults::HANDSHAKE_HTTP - Duration::from_millis(1));
    assert!(stage.aborted.is_empty() && stage.seen.is_empty());
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.aborted, [swallowed.id]);
    assert!(stage.next_request() <= defaults::RECONNECT_FIRST + Duration::from_millis(1));
    stage.answer_initialize("s1");
    let answer = stage.client_reads().expect("the server's own answer");
    assert_eq!(answer["result"], serde_json::json!({ "protocolVersion": "2025-11-25" }));
}

#[test]
fn r03_configured_timeout_holds_for_first_handshake() {
    let mut stage = Stage::with(Dialect::Auto, |notes| notes.timeouts.handshake = Duration::from_secs(3));
    stage.client_sends(INITIALIZE);
    let swallowed = stage.next_sent();
    stage.advance(Duration::from_secs(3));
    assert_eq!(stage.aborted, [swallowed.id]);
    stage.next_request();
    stage.next_sent();
    stage.advance(defaults::GRACE_AFTER_FAILURE);
    let answer = stage.client_reads().expect("a provisional answer three seconds after the failure");
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("handshake"), "{instructions}");
}

#[test]
fn r05_end_of_outage_is_found_while_client_keeps_reading() {
    for (form, fail) in OUTAGES {
        for seconds in [7, 20] {
            let mut stage = Stage::initialized();
            let mut requests = 0;
            let mut answers = Vec::new();
            let reads = seconds * 10 / 3;
            for id in 0..reads {
                stage.client_sends(&read(id));
                answers.extend(stage.run(Duration::from_millis(300), |stage, seen| {
                    requests += 1;
                    fail(stage, seen);
                }));
            }
            assert_eq!(answers, [], "{form}: the reads wait");
            // Each dial is at most a few requests: a ping, a handshake, a stream.
            assert!(requests <= 4 * (defaults::DIAL_BURST as u32 + seconds / 2), "{form}: {requests} requests");
            let end = stage.now;
            answers.extend(stage.run(Duration::from_secs(10), Stage::serve));
            assert_eq!(answers.len() as u32, reads, "{form}");
            let is_ok = |(_, answer): &(Moment, Value)| answer["result"] == serde_json::json!({});
            assert!(answers.iter().all(is_ok), "{form}: {answers:?}");
            let last = answers.last().unwrap().0.since(end);
            assert!(last <= FOUND, "{form}, {seconds} s: {last:?}");
        }
    }
}

#[test]
fn r08_handshake_of_lost_session_keeps_pause() {
    for status in [429, 503] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let lost = stage.next_sent();
        stage.status(lost.id, 404, Content::Empty, None);
        stage.end(lost.id, ExchangeEnd::Complete);
        stage.confirm_loss(404);
        let handshake = stage.next_sent();
        assert_eq!(handshake.method(), "initialize");
        stage.answer_overloaded(&handshake, status, Some(7));
        let waited = stage.next_request();
        let range = Duration::from_secs(7)..=Duration::from_millis(7_501);
        assert!(range.contains(&waited), "HTTP {status}: {waited:?}");
        stage.answer_initialize("s2");
        complete_handshake(&mut stage);
        stage.next_request();
        assert_eq!(stage.next_sent().method(), "tools/call");
    }
}

#[test]
fn r08_handshake_after_provisional_answer_keeps_pause() {
    for status in [429, 503] {
        let mut stage = Stage::new(Dialect::Auto);
        stage.client_sends(INITIALIZE);
        let handshake = stage.next_sent();
        stage.answer_overloaded(&handshake, status, Some(7));
        stage.advance(defaults::GRACE_AFTER_FAILURE);
        stage.client_reads().expect("a provisional answer");
        stage.client_sends(INITIALIZED);
        assert!(stage.seen.is_empty(), "HTTP {status}: the pause holds for internal requests");
        let waited = stage.next_request() + defaults::GRACE_AFTER_FAILURE;
        let range = Duration::from_secs(7)..=Duration::from_millis(7_501);
        assert!(range.contains(&waited), "HTTP {status}: {waited:?}");
        stage.answer_initialize("s1");
    }
}

/// Checks that a list which fails in this outage, and the next one, are answered from the catalogue.
fn assert_list_from_catalogue(form: &str, fail: Outage) {
    let mut stage = Stage::initialized();
    stage.client_sends(LIST);
    let list = stage.next_sent();
    stage.answer(&list, r#"{"tools":[{"name":"look"}]}"#);
    stage.client_reads().unwrap();
    stage.client_sends(LIST);
    let read = stage.run(Duration::from_secs(2), fail);
    let [(at, answer)] = &read[..] else { panic!("{form}: an answer, not {read:?}") };
    assert_eq!(answer["result"]["tools"][0]["name"], "look", "{form}: {answer}");
    assert!(at.since(Moment::ZERO) <= Duration::from_secs(1), "{form}: {at:?}");
    stage.client_sends(LIST);
    assert_eq!(stage.client_reads().expect(form)["result"]["tools"][0]["name"], "look", "{form}: at once");
}

#[test]
fn r17_list_is_answered_from_catalogue_when_server_goes_away() {
    for (form, fail) in OUTAGES.into_iter().filter(|(form, _)| *form != "a page with 404") {
        assert_list_from_catalogue(form, fail);
    }
}

#[test]
fn r17_list_is_answered_from_catalogue_when_session_cannot_be_replaced() {
    // The page is taken for a lost session, and the handshake gets it, too.
    assert_list_from_catalogue("a page with 404", |stage, seen| stage.page(seen, 404));
}

#[test]
fn r20_bare_429_pauses_double_and_cost_no_attempt() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let mut least = defaults::PAUSE_MIN;
    for refusal in 0..8 {
        let seen = stage.next_sent();
        assert_eq!(seen.method(), "tools/call", "refusal {refusal}");
        stage.answer_overloaded(&seen, 429, None);
        assert_eq!(stage.client_reads(), None, "refusal {refusal}");
        let waited = stage.next_request();
        let most = (least * 2).min(defaults::PAUSE_UNHINTED_CAP) + Duration::from_millis(1);
        assert!(
            (least.min(defaults::PAUSE_UNHINTED_CAP / 2)..=most).contains(&waited),
            "refusal {refusal}: {waited:?}"
        );
        least *= 2;
    }
    let seen = stage.next_sent();
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

#[test]
fn r20_short_retry_after_is_at_least_the_floor() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 429, Some(0));
    assert!(stage.next_request() >= defaults::PAUSE_MIN);
}

#[test]
fn r20_calls_are_admitted_gradually_after_pause() {
    let mut stage = Stage::initialized();
    (1..=16).for_each(|id| stage.client_sends(&call(id, "create_note")));
    let sent: Vec<_> = (0..16).map(|_| stage.next_sent()).collect();
    for seen in &sent {
        stage.answer_overloaded(seen, 429, None);
    }
    for (answered, admitted) in [1, 2, 4].into_iter().enumerate() {
        stage.next_request();
        assert_eq!(stage.seen.len(), admitted, "after {answered} answers");
        let first = stage.next_sent();
        // The others take longer.
        (1..admitted).for_each(|_| drop(stage.next_sent()));
        stage.answer(&first, "{}");
    }
    assert_eq!(stage.seen.len(), 8, "the third answer admits eight");
}

/// A queue in which the oldest call goes first, and takes longer than its time left, would never answer one.
#[test]
fn r20_call_with_time_left_goes_first_after_pause() {
    for (has_other, first) in [(true, "read_note"), (false, "create_note")] {
        let short = |config: &mut UpstreamConfig| config.timeouts.call = Duration::from_millis(2_900);
        let mut stage = Stage::with(Dialect::Streamable, short).initialize_session();
        (1..=3).for_each(|id| stage.client_sends(&call(id, "create_note")));
        for seen in (0..3).map(|_| stage.next_sent()).collect::<Vec<_>>() {
            stage.answer_overloaded(&seen, 429, Some(2));
        }
        stage.advance(Duration::from_millis(1_900));
        if has_other {
            stage.client_sends(&call(4, "read_note"));
        }
        stage.next_request();
        assert_eq!(stage.seen.len(), 1, "one call goes first");
        assert_eq!(stage.next_sent().json()["params"]["name"], first);
    }
}

#[test]
fn r20_call_that_cannot_be_sent_takes_no_place_after_pause() {
    let mut stage = Stage::with(Dialect::Streamable, |config| {
        config.timeouts.call = Duration::from_millis(2_900);
        let one = ToolPolicy { in_flight: Some(1), ..ToolPolicy::default() };
        config.tools.insert("read_note".to_owned(), one);
    })
    .initialize_session();
    stage.client_sends(&call(1, "read_note"));
    stage.client_sends(&call(2, "create_note"));
    let _in_flight = stage.next_sent();
    let refused = stage.next_sent();
    stage.answer_overloaded(&refused, 429, Some(2));
    stage.advance(Duration::from_millis(1_900));
    // It has time, but its tool is at its limit.
    stage.client_sends(&call(3, "read_note"));
    stage.next_request();
    assert_eq!(stage.next_sent().json()["params"]["name"], "create_note");
}

#[test]
fn r20_refusal_after_pause_starts_next_pause_for_all() {
    let mut stage = Stage::initialized();
    (1..=4).for_each(|id| stage.client_sends(&call(id, "create_note")));
    let sent: Vec<_> = (0..4).map(|_| stage.next_sent()).collect();
    for seen in &sent {
        stage.answer_overloaded(seen, 429, Some(2));
    }
    for round in 0..5 {
        assert!(stage.next_request() >= Duration::from_millis(1_999), "round {round}");
        assert_eq!(stage.seen.len(), 1, "round {round}: one call goes first");
        let first = stage.next_sent();
        stage.answer_overloaded(&first, 429, Some(2));
    }
}

#[test]
fn r20_probe_goes_first_after_503_with_hint() {
    let mut stage = Stage::initialized();
    stage.client_sends(&read(1));
    let seen = stage.next_sent();
    stage.answer_overloaded(&seen, 503, Some(2));
    stage.client_sends(&call(2, "create_note"));
    assert!(stage.next_request() >= Duration::from_millis(1_999));
    assert_eq!((stage.seen.len(), stage.seen[0].is_probe()), (1, true));
    stage.answer_probe();
    let read = stage.run(Duration::from_secs(2), Stage::serve);
    assert_eq!(read.len(), 2, "{read:?}");
}

#[test]
fn t06_needs_login_is_probed_and_cleared() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.page(&seen, 401);
    assert_eq!(failure(&stage.client_reads().expect("at once"))["cause"], "needs_login");
    stage.refuse_probe(401);
    let mut wait = defaults::LOGIN_PROBE;
    for id in 2..6 {
        stage.client_sends(&call(id, "create_note"));
        assert_eq!(failure(&stage.client_reads().expect("rejected"))["cause"], "needs_login");
        let waited = stage.next_request();
        assert!((wait - Duration::from_millis(1)..=wait).contains(&waited), "{waited:?}");
        assert_eq!(stage.seen.len(), 1);
        stage.refuse_probe(401);
        wait *= 2;
    }
    assert!(!stage.events.iter().any(|event| matches!(event, Event::LoginAccepted { .. })));
    stage.answer_probe();
    let accepted = stage.events.iter().filter(|event| matches!(event, Event::LoginAccepted { .. })).count();
    assert_eq!(accepted, 1, "{:?}", stage.log);
    stage.client_sends(&call(9, "create_note"));
    let seen = stage.next_sent();
    stage.answer(&seen, "{}");
    assert_eq!(stage.client_reads().unwrap()["id"], 9);
    stage.advance(Duration::from_secs(600));
    assert!(stage.seen.is_empty(), "it is not probed any more");
}

#[test]
fn probe_answered_with_retyped_id_over_sse_ends_outage() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.page(&seen, 500);
    stage.refuse_probe(500);
    let probe = stage.next_probe();
    stage.status(probe.id, 202, Content::Empty, None);
    stage.end(probe.id, ExchangeEnd::Complete);
    stage.event(sse, None, &format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#, probe.json()["id"]));
    assert_eq!(stage.engine.link_state(NOTES), Some(LinkState::Up));
    assert!(!stage.seen.iter().any(SentRequest::is_probe), "no other probe follows");
}

#[test]
fn suspect_server_is_not_probed_beside_its_new_sse_stream() {
    let (mut stage, sse) = over_sse();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.page(&seen, 500);
    stage.end(sse, ExchangeEnd::Cut(CutReason::Reset));
    stage.advance(defaults::PROBE_PAUSE * 2);
    let sse = stage.next_sent();
    assert_eq!(sse.ask.verb, Verb::Get);
    endpoint(&mut stage, sse.id, "/messages?s=2");
    assert_eq!(stage.next_sent().method(), "initialize", "the handshake is first");
    assert!(stage.seen.is_empty(), "nothing overtakes it");
}

#[test]
fn overloaded_handshake_over_sse_is_repeated_on_a_new_stream() {
    for (status, is_new) in [(503, true), (429, false)] {
        let mut stage = Stage::with(Dialect::Sse, |notes| notes.catalogue.startup = Startup::Wait);
        stage.client_sends(INITIALIZE);
        let sse = stage.next_sent().id;
        endpoint(&mut stage, sse, "/messages?s=1");
        let post = stage.next_sent();
        stage.answer_overloaded(&post, status, Some(1));
        assert_eq!(stage.aborted.contains(&sse), is_new, "{status}: the server may have been initialized");
        stage.next_request();
        let next = stage.next_sent();
        assert_eq!(next.ask.verb, if is_new { Verb::Get } else { Verb::Post }, "{status}");
    }
}

#[test]
fn probe_of_old_target_is_given_up() {
    let mut stage = Stage::initialized();
    stage.client_sends(&read(1));
    stage.refuse_connection();
    let probe = stage.next_probe();
    let config = Box::new(UpstreamConfig::http("notes", "https://other.example/mcp", Dialect::Auto));
    stage.input(Input::Reconfigure { upstream: NOTES, config, change: Change::Transport });
    assert!(stage.aborted.contains(&probe.id), "one probe at a time");
    let read = stage.run(Duration::from_secs(3), Stage::serve);
    assert!(matches!(&read[..], [(_, answer)] if answer["id"] == 1 && answer["result"].is_object()), "{read:?}");
}

#[test]
fn undecided_call_is_no_probe_of_manual_reconnect() {
    for has_other in [false, true] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "make"));
        let seen = stage.next_sent();
        stage.end(seen.id, ExchangeEnd::Cut(CutReason::Reset));
        stage.answer_probe();
        let hints = stage.next_sent();
        assert_eq!(hints.method(), "tools/list", "the hints decide whether it is sent again");
        stage.input(Input::Reconnect { upstream: NOTES });
        if has_other {
            stage.client_sends(&read(2));
        }
        let mut calls = 0;
        let answers = stage.run(Duration::from_secs(5), |stage, seen| {
            calls += u32::from(is_call(seen));
            stage.serve(seen);
        });
        assert_eq!(calls, 0, "it may have run");
        // It is decided by these hints, or by those that are looked up after the reconnect.
        stage.answer(&hints, r#"{"tools":[{"name":"make"}]}"#);
        let last = stage.client_reads();
        let mut answers = answers.iter().map(|(_, answer)| answer).chain(&last);
        assert!(answers.any(|answer| answer["id"] == 1 && outcome(answer) == "unknown"), "{last:?}");
    }
}

#[test]
fn t06_login_needed_by_away_server_is_probed_and_cleared() {
    for is_modern in [false, true] {
        let list = if is_modern { modern(1, "tools/list", "") } else { LIST.to_owned() };
        let mut stage = if is_modern { Stage::new(Dialect::Auto) } else { Stage::initialized() };
        stage.client_sends(&list);
        stage.run(Duration::from_secs(1), Stage::serve);
        stage.client_sends(&list);
        stage.refuse_connection();
        let is_rejected = |read: &(Moment, Value)| read.1["error"]["data"]["cause"] == "needs_login";
        let during = stage.run(Duration::from_secs(20), |stage, seen| stage.page(seen, 403));
        assert!(during.iter().any(is_rejected), "modern: {is_modern}: {during:?}");
        // Probes after 2, 4, 8 and 16 s: the next one is at most 16 s away.
        stage.run(Duration::from_secs(17), Stage::serve);
        stage.client_sends(&list);
        let after = stage.run(Duration::from_secs(1), Stage::serve);
        assert!(matches!(&after[..], [(_, answer)] if answer["result"].is_object()), "modern: {is_modern}: {after:?}");
        stage.run(Duration::from_secs(600), |_, seen| panic!("it is not probed any more: {:?}", seen.ask));
    }
}

#[test]
fn t06_missing_login_of_one_call_rejects_no_other() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    stage.client_sends(&call(2, "create_note"));
    let (refused, in_flight) = (stage.next_sent(), stage.next_sent());
    stage.page(&refused, 401);
    assert_eq!(stage.client_reads().expect("at once")["id"], 1);
    stage.answer_probe();
    stage.client_sends(&call(3, "create_note"));
    let next = stage.next_sent();
    for (seen, id) in [(next, 3), (in_flight, 2)] {
        stage.answer(&seen, "{}");
        let answer = stage.client_reads().unwrap();
        assert_eq!((&answer["id"], &answer["result"]), (&id.into(), &serde_json::json!({})));
    }
}

#[test]
fn new_credential_is_used_at_once_while_calls_are_in_flight() {
    let config = UpstreamConfig::http("notes", "http://notes.example/mcp", Dialect::Auto);
    for same_place in [true, false] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        stage.client_sends(&call(2, "create_note"));
        let (in_flight, refused) = (stage.next_sent(), stage.next_sent());
        stage.page(&refused, 401);
        assert_eq!(stage.client_reads().expect("at once")["id"], 2);
        stage.refuse_probe(401);
        let mut config = Box::new(config.clone());
        if !same_place {
            config.place = "https://other.example/mcp".into();
        }
        stage.input(Input::Reconfigure { upstream: NOTES, config, change: Change::Transport });
        let reported =
            stage.log.iter().rposition(|line| line.contains("reconfigured: the server is replaced")).unwrap();
        let is_at_once = stage.log[reported].ends_with("replaced at once");
        let is_replaced = stage.log[reported..].iter().any(|line| line.contains("server replaced"));
        assert_eq!((is_at_once, is_replaced), (same_place, same_place), "{:?}", &stage.log[reported..]);
        stage.client_sends(&call(3, "create_note"));
        if same_place {
            let read = stage.run(Duration::from_millis(300), Stage::serve);
            let [(_, answer)] = &read[..] else { panic!("one answer, not {read:?}") };
            assert_eq!((&answer["id"], &answer["result"]), (&3.into(), &serde_json::json!({})));
        } else {
            assert_eq!(failure(&stage.client_reads().unwrap())["cause"], "needs_login", "it may be another server");
        }
        stage.answer(&in_flight, "{}");
        let answer = stage.client_reads().expect("it was not ended");
        assert_eq!((&answer["id"], &answer["result"]), (&1.into(), &serde_json::json!({})));
    }
}

#[test]
fn t06_403_with_challenge_needs_login_like_401() {
    for status in [401, 403] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        stage.challenge(&seen, status);
        let answer = stage.client_reads().expect("at once");
        assert_eq!(
            (failure(&answer)["cause"].as_str(), outcome(&answer)),
            (Some("needs_login"), "refused"),
            "{status}"
        );
        let probe = stage.next_probe();
        stage.challenge(&probe, status);
        stage.client_sends(&call(2, "create_note"));
        let rejected = stage.client_reads().expect("at once");
        assert_eq!(failure(&rejected)["cause"], "needs_login", "{status}: {rejected}");
        let read = stage.run(Duration::from_secs(5), Stage::serve);
        assert_eq!(read, [], "{status}");
        stage.client_sends(&call(3, "create_note"));
        let read = stage.run(Duration::from_secs(1), Stage::serve);
        assert_eq!(read[0].1["result"], serde_json::json!({}), "{status}: a probe was accepted");
    }
}

#[test]
fn t06_403_without_challenge_is_refused() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let read = stage.run(Duration::from_secs(5), |stage, seen| match is_call(seen) {
        true => stage.page(seen, 403),
        false => stage.serve(seen),
    });
    assert_eq!(failure(&read[0].1)["cause"], "refused", "{read:?}");
}

#[test]
fn r25_ping_is_answered_while_login_is_needed() {
    let mut stage = Stage::initialized();
    stage.client_sends(&call(1, "create_note"));
    let seen = stage.next_sent();
    stage.challenge(&seen, 401);
    stage.client_reads().expect("at once");
    let probe = stage.next_probe();
    stage.challenge(&probe, 401);
    stage.client_sends(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    let answer = stage.client_reads().expect("by Mendline");
    assert_eq!((&answer["id"], &answer["result"]), (&2.into(), &serde_json::json!({})));
    assert!(stage.seen.is_empty());
}

#[test]
fn first_handshake_in_outage_counts_each_attempt_once() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    stage.run(Duration::from_secs(2), |stage, seen| stage.page(seen, 502));
    let retries: Vec<_> = stage.log.iter().filter_map(|line| line.split_once("(attempt ")).collect();
    assert!(retries.len() > 2, "{:?}", stage.log);
    for (number, (_, words)) in retries.iter().enumerate() {
        let expected = format!("{} of {})", number + 2, number + 4);
        assert!(words.starts_with(&expected), "{expected}: {words}");
    }
}

#[test]
fn t10_primed_and_closed_handshake_obeys_backoff() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(INITIALIZE);
    let (mut requests, mut event) = (0, 0);
    stage.run(Duration::from_secs(60), |stage, seen| {
        requests += 1;
        event += 1;
        stage.status(seen.id, 200, Content::Events, None);
        stage.event(seen.id, Some(&event.to_string()), "");
        stage.end(seen.id, ExchangeEnd::Complete);
    });
    assert!((5..=36).contains(&requests), "{requests} requests in a minute");
}

#[test]
fn r20_bare_429_is_logged_as_overload() {
    for (hint, words) in [(None, "the server is overloaded"), (Some(2), "as the server requested")] {
        let mut stage = Stage::initialized();
        stage.client_sends(&call(1, "create_note"));
        let seen = stage.next_sent();
        stage.answer_overloaded(&seen, 429, hint);
        let line = stage.log.iter().find(|line| line.contains("paused for")).expect("a line");
        assert!(line.contains(words), "{line}");
    }
}

/// A restarted server that refuses an unknown session with an error that names no request, as the SDK for TypeScript does.
#[test]
fn server_that_refuses_lost_session_without_id_is_initialized_again() {
    for (status, id) in [(400, ""), (400, r#","id":null"#), (404, "")] {
        let mut stage = Stage::initialized();
        stage.client_sends(&read(1));
        stage.refuse_connection();
        let error = r#"{"code":-32000,"message":"Bad Request: No valid session ID provided"}"#;
        let answers = stage.run(Duration::from_secs(10), |stage, seen| {
            if seen.ask.verb == Verb::Post && seen.header("mcp-session-id") == Some("s1") {
                stage.status(seen.id, status, Content::Json, None);
                stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","error":{error}{id}}}"#));
                stage.end(seen.id, ExchangeEnd::Complete);
            } else if seen.ask.verb == Verb::Post && seen.method() == "initialize" {
                stage.status(seen.id, 200, Content::Json, Some("s2"));
                let result = r#"{"protocolVersion":"2025-11-25"}"#;
                let id = &seen.json()["id"];
                stage.body(seen.id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
                stage.end(seen.id, ExchangeEnd::Complete);
            } else {
                stage.serve(seen);
            }
        });
        let answered: Vec<_> =
            answers.iter().map(|(_, answer)| (&answer["id"], answer["result"].is_object())).collect();
        assert_eq!(answered, [(&Value::from(1), true)], "{status} {id}");
    }
}

#[test]
fn server_without_session_and_calls_is_not_probed() {
    let mut stage = Stage::new(Dialect::Auto);
    stage.client_sends(&modern(1, "tools/call", r#""name":"create_note","#));
    stage.refuse_connection();
    stage.client_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    stage.advance(Duration::from_secs(600));
    assert!(stage.seen.is_empty());
}
