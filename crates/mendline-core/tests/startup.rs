//! Answers while the server is not up: from the cache, provisional, or none.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use std::time::Duration;

use mendline_core::config::{Catalogue, Startup};
use mendline_core::port::SpawnError;
use mendline_core::{Input, LinkState, ListCache, Moment, defaults};
use serde_json::{Value, json};
use stage::{Stage, call};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const HANDSHAKE_RESULT: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"Notes","version":"7"},"instructions":"Be brief."}"#;
const TOOLS: &str = r#"{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"make"}], "x":1e3}"#;

fn initialize_request(version: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": "g", "method": "initialize", "params": { "protocolVersion": version, "capabilities": {} } })
        .to_string()
}

fn list(id: u32) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }).to_string()
}

fn result(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns the cache of a server after a handshake and a tool list.
fn cached() -> ListCache {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_answers(HANDSHAKE_RESULT);
    stage.client_sends(INITIALIZED);
    stage.server_reads().unwrap();
    stage.client_sends(&list(1));
    stage.server_answers(TOOLS);
    stage.advance(defaults::CACHE_AFTER);
    let kept = stage.saved.expect("it is kept once the beginning is over");
    // Encodes and decodes the cache like a file.
    ListCache::read(&kept.write()).unwrap()
}

/// Creates a stage whose handshake and tool list were answered from the cache.
fn initialized_from_cache() -> Stage {
    let mut stage = Stage::with_cache(Some(cached()), |_| {});
    stage.client_sends(&initialize_request("2025-11-25"));
    assert_eq!(stage.client_reads().unwrap()["result"], result(HANDSHAKE_RESULT));
    stage.client_sends(INITIALIZED);
    stage.client_sends(&list(2));
    let answer = stage.client_reads().unwrap();
    assert_eq!((&answer["id"], &answer["result"]), (&json!(2), &result(TOOLS)));
    stage
}

/// Starts the server and answers its handshake.
fn server_comes_up(stage: &mut Stage, hello: &str) {
    stage.accept_dial();
    let initialized = stage.server_answers(hello);
    assert_eq!(
        (&initialized["method"], &initialized["params"]["protocolVersion"]),
        (&json!("initialize"), &json!("2025-11-25"))
    );
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
}

// ---- answers from the cache ----

#[test]
fn cache_answers_handshake_and_tools_before_start() {
    let mut stage = initialized_from_cache();
    assert_eq!(stage.state(), LinkState::Dialing);
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    assert_eq!(stage.server_answers(TOOLS)["method"], "tools/list");
    assert_eq!(stage.client_reads(), None, "no change, so no notification");
    assert_eq!(stage.server_reads(), None, "one handshake, one list");
    assert!(stage.log.iter().any(|line| line == "handshake completed after the client's: initialize, initialized"));
    stage.client_sends(&list(3));
    assert_eq!(stage.server_answers(TOOLS)["method"], "tools/list", "a server that is there answers for itself");
}

#[test]
fn cached_answer_equals_server_bytes() {
    let mut stage = Stage::with_cache(Some(cached()), |_| {});
    stage.client_sends(&initialize_request("2025-11-25"));
    let text = stage.engine.poll_write(mendline_core::Port::Client(stage::CLIENT), stage.now).unwrap().to_bytes();
    assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":"g","result":{HANDSHAKE_RESULT}}}"#));
    stage.client_sends(&list(2));
    let text = stage.engine.poll_write(mendline_core::Port::Client(stage::CLIENT), stage.now).unwrap().to_bytes();
    assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":2,"result":{TOOLS}}}"#));
}

#[test]
fn changed_list_is_announced_when_server_is_up() {
    let mut stage = initialized_from_cache();
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    stage.server_answers(r#"{"tools":[{"name":"look"},{"name":"make"}]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
    stage.client_sends(&list(3));
    stage.server_answers(r#"{"tools":[{"name":"look"},{"name":"make"}]}"#);
    assert_eq!(stage.client_reads().unwrap()["result"]["tools"], json!([{ "name": "look" }, { "name": "make" }]));
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn interrupted_check_of_cached_list_is_repeated() {
    let mut stage = initialized_from_cache();
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/list");
    stage.die(stage.written);
    stage.advance(Duration::from_secs(1));
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    stage.server_answers(r#"{"tools":[{"name":"look"},{"name":"make"},{"name":"new"}]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn calls_wait_until_handshake_completes() {
    let mut stage = initialized_from_cache();
    stage.client_sends(&call("3", "make"));
    assert_eq!(stage.client_reads(), None);
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    assert_eq!(stage.server_answers("{}")["params"]["name"], "make");
    assert_eq!(stage.client_reads().unwrap()["id"], 3);
}

#[test]
fn difference_from_cached_handshake_is_logged() {
    let mut stage = initialized_from_cache();
    server_comes_up(
        &mut stage,
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"Notes","version":"8"}}"#,
    );
    let reported =
        "the server's handshake differs from the client's in protocolVersion, capabilities, serverInfo, instructions";
    assert!(stage.log.iter().any(|line| line == reported), "{:?}", stage.log);
    // Calls pass unchanged between legacy revisions.
    stage.server_answers(TOOLS);
    stage.client_sends(&call("3", "make"));
    assert_eq!(stage.server_answers("{}")["params"]["name"], "make");
    assert_eq!(stage.client_reads().unwrap()["id"], 3);
}

#[test]
fn rejected_handshake_clears_cache() {
    let mut stage = initialized_from_cache();
    stage.client_sends(&call("3", "make"));
    stage.accept_dial();
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"too old"}}}}"#));
    assert_eq!(stage.state(), LinkState::Draining);
    stage.die(stage.written);
    stage.advance(defaults::RECOVERY);
    let message = stage.client_reads().unwrap()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(message.contains("the server refused the handshake: too old"), "{message}");
    let mut next = Stage::with_cache(stage.saved, |_| {});
    next.client_sends(&initialize_request("2025-11-25"));
    assert_eq!(next.client_reads(), None, "the cached handshake is obsolete");
}

#[test]
fn uncached_protocol_version_waits_for_server() {
    let mut stage = Stage::with_cache(Some(cached()), |_| {});
    stage.accept_dial();
    stage.client_sends(&initialize_request("2025-03-26"));
    assert_eq!(stage.client_reads(), None);
    stage.server_answers(r#"{"protocolVersion":"2025-03-26"}"#);
    assert_eq!(stage.client_reads().unwrap()["result"]["protocolVersion"], "2025-03-26");
    stage.client_sends(INITIALIZED);
    stage.die(stage.written);
    stage.client_sends(&list(2));
    assert_eq!(stage.client_reads(), None, "a list of another revision is another list");
}

#[test]
fn cached_read_hints_are_used() {
    let mut stage = initialized_from_cache();
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    stage.server_reads().unwrap();
    stage.client_sends(&call("3", "look"));
    stage.client_sends(&call("4", "make"));
    (0..2).for_each(|_| drop(stage.server_reads().unwrap()));
    stage.die(stage.written);
    let lost = stage.client_reads().unwrap();
    assert_eq!(
        (&lost["id"], &lost["result"]["_meta"]["dev.mendline/failure"]["outcome"]),
        (&json!(4), &json!("unknown"))
    );
    stage.advance(Duration::from_secs(1));
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    let again: Vec<Value> =
        std::iter::from_fn(|| stage.server_reads()).map(|it| it["params"]["name"].clone()).collect();
    assert!(again.contains(&json!("look")), "{again:?}");
}

#[test]
fn cache_answers_list_while_server_is_away() {
    let mut stage = initialized_from_cache();
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    stage.server_answers(TOOLS);
    stage.die(stage.written);
    stage.client_sends(&list(3));
    assert_eq!(stage.client_reads().unwrap()["result"], result(TOOLS));
    stage.advance(Duration::from_secs(1));
    let link = stage.spawned.take().unwrap();
    let why = SpawnError::NotFound { command: "notes-server".to_owned() };
    stage.input(Input::SpawnFailed { link, why });
    assert_eq!(stage.state(), LinkState::Parked);
    stage.client_sends(&list(4));
    assert_eq!(stage.client_reads().unwrap()["result"], result(TOOLS));
}

#[test]
fn list_started_from_cache_is_completed_from_cache() {
    let pages = [r#"{"tools":[{"name":"a"}],"nextCursor":"p2"}"#, r#"{"tools":[{"name":"b"}]}"#];
    let next = r#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"p2"}}"#;
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_answers(HANDSHAKE_RESULT);
    stage.client_sends(&list(1));
    stage.server_answers(pages[0]);
    stage.client_sends(next);
    stage.server_answers(pages[1]);
    stage.advance(defaults::CACHE_AFTER);
    let mut stage = Stage::with_cache(stage.saved, |_| {});
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.client_sends(INITIALIZED);
    stage.client_sends(&list(1));
    (0..2).for_each(|_| drop(stage.client_reads().unwrap()));
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    stage.server_answers(r#"{"tools":[{"name":"a"}],"nextCursor":"other"}"#);
    assert_eq!(stage.client_reads(), None, "so far it is the same");
    stage.client_sends(next);
    assert_eq!(stage.client_reads().unwrap()["result"], result(pages[1]), "the old cursor means nothing to the server");
    stage.server_answers(r#"{"tools":[{"name":"a"}],"nextCursor":"other"}"#);
    stage.server_answers(r#"{"tools":[{"name":"b"},{"name":"c"}]}"#);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn disabled_cache_is_neither_used_nor_written() {
    let mut stage = Stage::with_cache(Some(cached()), |notes| {
        notes.catalogue = Catalogue { cache: false, startup: Startup::Immediate }
    });
    stage.accept_dial();
    stage.client_sends(&initialize_request("2025-11-25"));
    assert_eq!(stage.client_reads(), None);
    stage.server_answers(HANDSHAKE_RESULT);
    stage.client_sends(&list(1));
    stage.server_answers(TOOLS);
    stage.advance(defaults::CACHE_AFTER * 2);
    stage.input(Input::ClientLost { client: stage::CLIENT });
    assert_eq!(stage.saves, 0);
}

#[test]
fn without_provisional_answer_handshake_waits_for_server() {
    let mut stage =
        Stage::with_cache(Some(cached()), |notes| notes.catalogue = Catalogue { cache: true, startup: Startup::Wait });
    stage.accept_dial();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.advance(defaults::HANDSHAKE);
    assert_eq!(stage.client_reads(), None);
    stage.server_answers(r#"{"protocolVersion":"2025-11-25","live":true}"#);
    assert_eq!(stage.client_reads().unwrap()["result"]["live"], true);
}

// ---- saving the cache ----

#[test]
fn cache_is_saved_only_after_changes_and_rarely() {
    let mut stage = Stage::with(|notes| notes.keep_alive = None);
    stage.accept_dial();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_answers(HANDSHAKE_RESULT);
    stage.client_sends(&list(1));
    stage.server_answers(TOOLS);
    stage.advance(defaults::CACHE_AFTER);
    assert_eq!(stage.saves, 1);
    stage.client_sends(&list(2));
    stage.server_answers(TOOLS);
    stage.advance(defaults::CACHE_PAUSE * 2);
    assert_eq!(stage.saves, 1, "there was nothing new");
    for id in 0..100 {
        stage.client_sends(&list(id));
        stage.server_answers(&format!(r#"{{"tools":[{id}]}}"#));
        stage.advance(Duration::from_secs(1));
    }
    assert!((2..=5).contains(&stage.saves), "{} times in 100 s", stage.saves);
}

#[test]
fn unsaved_cache_is_saved_at_shutdown() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_answers(HANDSHAKE_RESULT);
    stage.input(Input::ClientLost { client: stage::CLIENT });
    assert_eq!((stage.saves, stage.saved.unwrap().len()), (1, 1));
}

// ---- without a cache ----

#[test]
fn answer_within_grace_is_passed_on() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.advance(defaults::GRACE - Duration::from_millis(1));
    assert_eq!(stage.client_reads(), None);
    stage.server_answers(HANDSHAKE_RESULT);
    assert_eq!(stage.client_reads().unwrap()["result"], result(HANDSHAKE_RESULT));
    stage.advance(defaults::GRACE);
    assert_eq!(stage.client_reads(), None, "and is answered once");
}

#[test]
fn pending_handshake_is_answered_provisionally_and_not_resent() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-06-18"));
    let sent = stage.server_reads().unwrap();
    stage.advance(defaults::GRACE);
    let message = stage.client_reads().unwrap();
    assert_eq!((&message["id"], &message["result"]["protocolVersion"]), (&json!("g"), &json!("2025-06-18")));
    assert_eq!(message["result"]["serverInfo"]["name"], "notes");
    assert_eq!(message["result"]["capabilities"]["tools"]["listChanged"], true);
    stage.client_sends(INITIALIZED);
    stage.client_sends(&list(1));
    assert_eq!(stage.server_reads(), None, "no message overtakes the handshake");
    stage.advance(Duration::from_secs(10));
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{HANDSHAKE_RESULT}}}"#, sent["id"]));
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    stage.server_answers(TOOLS);
    assert_eq!(stage.client_reads().unwrap()["result"], result(TOOLS));
    assert_eq!((stage.client_reads(), stage.server_reads()), (None, None));
}

#[test]
fn server_down_at_start_is_initialized_when_up() {
    let mut stage = Stage::new();
    stage.client_sends(&initialize_request("2025-11-25"));
    let down = |stage: &mut Stage| {
        let link = stage.spawned.take().unwrap();
        let why = SpawnError::Exhausted { command: "notes-server".to_owned(), error: "try again".to_owned() };
        stage.input(Input::SpawnFailed { link, why });
    };
    down(&mut stage);
    stage.advance(defaults::GRACE_AFTER_FAILURE);
    let answer = stage.client_reads().expect("after a failure the grace is short");
    assert_eq!(answer["result"]["serverInfo"]["name"], "notes");
    assert!(answer["result"]["instructions"].as_str().unwrap().contains("try again"), "{answer}");
    stage.client_sends(INITIALIZED);
    stage.client_sends(&list(1));
    for _ in 0..45 {
        if stage.spawned.is_some() {
            down(&mut stage);
        }
        stage.advance(Duration::from_secs(1));
    }
    assert_eq!(stage.client_reads().unwrap()["error"]["data"]["cause"], "unavailable", "the request failed");
    stage.advance(Duration::from_secs(5));
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    stage.server_answers(TOOLS);
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/tools/list_changed", "there it is");
}

#[test]
fn unsupported_list_is_answered_as_empty() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    let sent = stage.server_reads().unwrap();
    stage.advance(defaults::GRACE);
    stage.client_reads().unwrap();
    stage.client_sends(INITIALIZED);
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{HANDSHAKE_RESULT}}}"#, sent["id"]));
    stage.server_reads().unwrap();
    for (method, member) in [("prompts/list", "prompts"), ("resources/templates/list", "resourceTemplates")] {
        stage.client_sends(&json!({ "jsonrpc": "2.0", "id": 5, "method": method }).to_string());
        let id = stage.server_reads().unwrap()["id"].clone();
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"what?"}}}}"#));
        assert_eq!(stage.client_reads().unwrap()["result"], json!({ member: [] }));
    }
    stage.client_sends(&json!({ "jsonrpc": "2.0", "id": 5, "method": "prompts/list" }).to_string());
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"what?"}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32602, "another error is no missing list");
    stage.client_sends(r#"{"jsonrpc":"2.0","id":6,"method":"prompts/get"}"#);
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"what?"}}}}"#));
    assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32601, "only lists are");
}

#[test]
fn handshake_after_provisional_answer_has_first_start_timeout() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    let sent = stage.server_reads().unwrap();
    stage.advance(defaults::HANDSHAKE - Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Up, "it may be downloading itself");
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{HANDSHAKE_RESULT}}}"#, sent["id"]));
    stage.client_reads().unwrap();
    stage.client_sends(&call("1", "make"));
    assert_eq!(stage.server_answers("{}")["params"]["name"], "make");
}

// ---- the timeout of handshakes ----

/// Starts a child that never answers the first handshake, and checks that it is replaced after this time.
fn first_handshake_ends_after(timeout: Duration, startup: Startup) {
    let mut stage = Stage::with(|notes| {
        notes.catalogue = Catalogue { cache: true, startup };
        notes.timeouts.handshake = timeout;
    });
    stage.accept_dial();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_reads().unwrap();
    stage.advance(timeout - Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Up);
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Draining, "the handshake has not been answered for {timeout:?}");
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    assert_eq!(stage.server_answers(HANDSHAKE_RESULT)["method"], "initialize");
    let answers = std::iter::from_fn(|| stage.client_reads()).filter(|it| it["id"] == "g").count();
    assert_eq!(answers, 1, "the client has its answer");
}

#[test]
fn r03_silent_first_handshake_ends_child_after_timeout() {
    first_handshake_ends_after(defaults::HANDSHAKE, Startup::Immediate);
}

#[test]
fn r03_handshake_timeout_holds_without_provisional_answer() {
    first_handshake_ends_after(defaults::HANDSHAKE, Startup::Wait);
}

#[test]
fn r03_configured_timeout_holds_for_first_handshake() {
    first_handshake_ends_after(Duration::from_secs(3), Startup::Immediate);
}

/// Starts a child that neither answers its first handshake for three seconds nor ends when it is told to.
fn draining_at_first_handshake(startup: Startup) -> Stage {
    let mut stage = Stage::with(|notes| {
        notes.catalogue = Catalogue { cache: true, startup };
        notes.timeouts.handshake = Duration::from_secs(3);
        notes.timeouts.call = Duration::from_secs(4);
    });
    stage.accept_dial();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_reads().unwrap();
    stage.advance(Duration::from_secs(3));
    assert_eq!(stage.state(), LinkState::Draining);
    stage
}

#[test]
fn r03_deadline_of_handshake_holds_while_child_is_ended() {
    let mut stage = draining_at_first_handshake(Startup::Wait);
    stage.advance(Duration::from_secs(1));
    assert_eq!(stage.state(), LinkState::Draining);
    let answer = stage.client_reads().expect("an answer at the deadline");
    assert_eq!((&answer["id"], &answer["error"]["data"]["cause"]), (&json!("g"), &json!("timed_out")));
}

#[test]
fn r26_grace_of_handshake_ends_while_child_is_ended() {
    let mut stage = draining_at_first_handshake(Startup::Immediate);
    stage.advance(Duration::from_secs(1));
    assert_eq!(stage.state(), LinkState::Draining);
    let answer = stage.client_reads().expect("a provisional answer");
    assert_eq!(answer["result"]["serverInfo"]["version"], "provisional");
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    assert_eq!(stage.server_answers(HANDSHAKE_RESULT)["method"], "initialize");
    assert_eq!(stage.client_reads(), None, "one answer");
}

/// A child that answers its first handshake after this time.
fn initialized_after(time: Duration) -> Stage {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.advance(time);
    stage.server_answers(HANDSHAKE_RESULT);
    stage.client_reads().unwrap();
    stage.client_sends(INITIALIZED);
    stage.server_reads().unwrap();
    stage
}

#[test]
fn r11_restarted_child_that_hangs_is_replaced_sooner() {
    let mut stage = initialized_after(Duration::ZERO);
    stage.die(stage.written);
    stage.client_sends(&call("1", "make"));
    stage.next_dial();
    stage.accept_dial();
    assert_eq!(stage.server_reads().unwrap()["method"], "initialize");
    stage.advance(defaults::HANDSHAKE_AGAIN - Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Up);
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Draining, "nothing is downloaded again");
    stage.die(stage.written);
    stage.next_dial();
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    assert_eq!(stage.server_answers("{}")["params"]["name"], "make", "the call has waited for it");
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
}

/// Kills the child and dials the next one, which does not answer its handshake.
fn restart_without_answer(stage: &mut Stage) {
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    assert_eq!(stage.server_reads().unwrap()["method"], "initialize");
}

#[test]
fn r11_server_that_started_slowly_gets_as_long_again() {
    let mut stage = initialized_after(Duration::from_secs(7));
    restart_without_answer(&mut stage);
    stage.advance(defaults::HANDSHAKE - Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Up);
    stage.advance(Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Draining);
}

#[test]
fn r11_server_that_misses_four_handshakes_gets_the_time_of_a_first_start() {
    let mut stage = initialized_after(Duration::ZERO);
    for missed in 0..defaults::MISSED_HANDSHAKES {
        restart_without_answer(&mut stage);
        stage.advance(defaults::HANDSHAKE_AGAIN);
        assert_eq!(stage.state(), LinkState::Draining, "after {missed}");
    }
    restart_without_answer(&mut stage);
    stage.advance(defaults::HANDSHAKE - Duration::from_millis(1));
    assert_eq!(stage.state(), LinkState::Up);
}

#[test]
fn r11_time_of_start_outlives_the_process() {
    let slow = defaults::HANDSHAKE_AGAIN / 2 + Duration::from_millis(1);
    for (start, limit) in [(Duration::from_millis(300), defaults::HANDSHAKE_AGAIN), (slow, defaults::HANDSHAKE)] {
        let mut stage = initialized_after(start);
        stage.advance(defaults::CACHE_AFTER);
        let saved = ListCache::read(&stage.saved.unwrap().write()).unwrap();
        let mut stage = Stage::with_cache(Some(saved), |_| {});
        stage.client_sends(&initialize_request("2025-11-25"));
        assert_eq!(stage.client_reads().unwrap()["result"], result(HANDSHAKE_RESULT));
        stage.accept_dial();
        assert_eq!(stage.server_reads().unwrap()["method"], "initialize");
        stage.advance(limit - Duration::from_millis(1));
        assert_eq!(stage.state(), LinkState::Up, "{start:?}");
        stage.advance(Duration::from_millis(1));
        assert_eq!(stage.state(), LinkState::Draining, "{start:?}");
    }
}

// ---- the grace of the first handshake ----

/// Returns the time until the first handshake of a client with this name is answered.
fn time_to_provisional_answer(client: &str) -> Duration {
    let mut stage = Stage::up();
    let params = json!({ "protocolVersion": "2025-11-25", "clientInfo": { "name": client } });
    stage.client_sends(&json!({ "jsonrpc": "2.0", "id": "g", "method": "initialize", "params": params }).to_string());
    stage.server_reads().unwrap();
    loop {
        stage.advance(Duration::from_millis(1));
        if let Some(answer) = stage.client_reads() {
            assert_eq!(answer["result"]["serverInfo"]["version"], "provisional");
            return stage.now.since(Moment::ZERO);
        }
    }
}

#[test]
fn r26_grace_without_failure_depends_on_patience_of_client() {
    assert_eq!(time_to_provisional_answer("claude-code"), defaults::GRACE);
    for client in ["codex-mcp-client", "Codex"] {
        assert_eq!(time_to_provisional_answer(client), defaults::GRACE_IMPATIENT, "{client}");
    }
}

#[test]
fn r26_provisional_answer_names_problem_after_first_failure() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_reads().unwrap();
    stage.advance(Duration::from_secs(10));
    stage.die(stage.written);
    stage.advance(defaults::GRACE_AFTER_FAILURE - Duration::from_millis(1));
    assert_eq!(stage.client_reads(), None, "a short fault passes");
    stage.advance(Duration::from_millis(1));
    let answer = stage.client_reads().expect("the grace is over");
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("killed by signal 9") && instructions.contains("mendline doctor"), "{instructions}");
}

#[test]
fn r02_command_that_exits_at_start_does_not_fail_handshake() {
    let mut stage = Stage::new();
    stage.client_sends(&initialize_request("2025-11-25"));
    let end = stage.now + Duration::from_secs(10);
    let mut answers = Vec::new();
    while stage.now < end {
        if stage.spawned.is_some() {
            stage.accept_dial();
            while stage.server_reads().is_some() {}
            stage.die(stage.written);
        }
        assert_eq!(stage.state(), LinkState::Waiting, "nothing is parked");
        stage.advance(Duration::from_millis(10));
        answers.extend(stage.client_reads().map(|answer| (stage.now.since(Moment::ZERO), answer)));
    }
    let [(after, answer)] = &answers[..] else { panic!("one answer: {answers:?}") };
    assert_eq!(*after, defaults::GRACE_AFTER_FAILURE);
    assert!(answer["result"]["instructions"].as_str().unwrap().contains("killed by signal 9"), "{answer}");
    stage.client_sends(INITIALIZED);
    stage.client_sends(&list(1));
    stage.next_dial();
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    stage.server_answers(TOOLS);
    assert_eq!(stage.client_reads().unwrap()["result"], result(TOOLS));
}

#[test]
fn child_lost_after_provisional_answer_is_reinitialized() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2025-11-25"));
    stage.server_reads().unwrap();
    stage.advance(defaults::GRACE);
    stage.client_reads().unwrap();
    stage.client_sends(INITIALIZED);
    stage.die(stage.written);
    stage.advance(Duration::from_secs(1));
    server_comes_up(&mut stage, HANDSHAKE_RESULT);
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn unknown_protocol_version_is_forwarded() {
    let mut stage = Stage::up();
    stage.client_sends(&initialize_request("2031-01-01"));
    stage.advance(defaults::HANDSHAKE);
    assert_eq!(stage.client_reads(), None);
    stage.server_answers(HANDSHAKE_RESULT);
    assert_eq!(stage.client_reads().unwrap()["result"], result(HANDSHAKE_RESULT));
}

// ---- the modern era ----

fn modern(id: u32, method: &str, params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}{params}}}}}"#
    )
}

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}"#;

fn modern_tools(tool: &str) -> String {
    format!(r#"{{"resultType":"complete","tools":[{{"name":"{tool}"}}],"ttlMs":60000,"cacheScope":"private"}}"#)
}

fn modern_stage(age: Duration) -> Stage {
    let mut stage = Stage::up();
    stage.client_sends(&modern(1, "server/discover", ""));
    stage.server_answers(DISCOVERED);
    stage.client_sends(&modern(2, "tools/list", ""));
    stage.server_answers(&modern_tools("a"));
    stage.advance(defaults::CACHE_AFTER);
    let mut kept = stage.saved.unwrap();
    kept.grow_older(age);
    Stage::with_cache(Some(kept), |_| {})
}

#[test]
fn modern_answer_from_cache_has_zero_ttl() {
    let mut stage = modern_stage(Duration::from_secs(1));
    stage.client_sends(&modern(3, "server/discover", ""));
    stage.client_sends(&modern(4, "tools/list", ""));
    let (about, tools) = (stage.client_reads().unwrap(), stage.client_reads().unwrap());
    assert_eq!(
        (&about["result"]["ttlMs"], &about["result"]["supportedVersions"][0]),
        (&json!(0), &json!("2026-07-28"))
    );
    assert_eq!(
        (&tools["id"], &tools["result"]["ttlMs"], &tools["result"]["tools"][0]["name"]),
        (&json!(4), &json!(0), &json!("a"))
    );
}

#[test]
fn cached_modern_list_is_reread_and_change_is_announced() {
    let mut stage = modern_stage(Duration::from_secs(1));
    stage.client_sends(&modern(4, "tools/list", ""));
    stage.client_reads().unwrap();
    stage.accept_dial();
    let looked = stage.server_answers(&modern_tools(r#"a"},{"name":"b"#));
    assert_eq!(looked["method"], "tools/list");
    assert_eq!(looked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(stage.client_reads(), None, "no subscription yet");
    stage.client_sends(&modern(5, "subscriptions/listen", r#","notifications":{"toolsListChanged":true}"#));
    let listen = stage.server_reads().unwrap();
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}"#, listen["id"]);
    stage.server_sends(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{{meta}}}}}"#
    ));
    assert_eq!(stage.client_reads().unwrap()["method"], "notifications/subscriptions/acknowledged");
    let message = stage.client_reads().expect("what has changed before");
    assert_eq!(message["method"], "notifications/tools/list_changed");
    assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
    assert_eq!(stage.client_reads(), None);
}

#[test]
fn fresh_cached_modern_list_is_used_until_ttl() {
    let mut stage = modern_stage(Duration::from_secs(8));
    stage.accept_dial();
    stage.client_sends(&call("1", "make"));
    stage.server_answers("{}");
    stage.client_reads().unwrap();
    stage.client_sends(&modern(4, "tools/list", ""));
    let tools = stage.client_reads().expect("from the catalogue");
    assert_eq!(tools["result"]["ttlMs"], 50_000, "two seconds until it was kept, and eight since");
    assert_eq!(stage.server_reads(), None);
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    stage.client_reads().unwrap();
    stage.client_sends(&modern(5, "tools/list", ""));
    assert_eq!(
        stage.server_answers(&modern_tools("b"))["method"],
        "tools/list",
        "the server marked it as not cacheable"
    );
    stage.client_reads().unwrap();
    stage.advance(Duration::from_secs(61));
    stage.client_sends(&modern(6, "tools/list", ""));
    assert_eq!(stage.server_answers(&modern_tools("b"))["method"], "tools/list", "its time is over");
}

#[test]
fn r29_any_refusal_of_modern_probe_is_cached() {
    for code in [-32601, -32602, -32600, -32000] {
        let mut stage = Stage::up();
        stage.client_sends(&modern(1, "server/discover", ""));
        let id = stage.server_reads().unwrap()["id"].clone();
        stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"what?"}}}}"#));
        stage.advance(defaults::CACHE_AFTER);
        let mut stage = Stage::with_cache(stage.saved, |_| {});
        stage.client_sends(&modern(1, "server/discover", ""));
        assert_eq!(stage.client_reads().expect("at once")["error"]["code"], code);
    }
}

#[test]
fn refusal_of_modern_probe_is_not_answered_for_the_next_process() {
    let mut stage = Stage::up();
    stage.client_sends(&modern(1, "server/discover", ""));
    let id = stage.server_reads().unwrap()["id"].clone();
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"what?"}}}}"#));
    stage.client_reads().unwrap();
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    stage.client_sends(&modern(2, "server/discover", ""));
    assert_eq!(stage.server_reads().expect("the new process is asked")["method"], "server/discover");
}

#[test]
fn catalogue_keeps_as_many_answers_as_its_limit() {
    let mut stage = Stage::up();
    for id in 0..=defaults::CATALOGUE_ENTRIES {
        stage.client_sends(&modern(id as u32, "tools/list", &format!(r#","cursor":"{id}""#)));
        stage.server_answers(&modern_tools("a"));
        stage.client_reads().unwrap();
    }
    stage.advance(defaults::CACHE_AFTER);
    assert_eq!(stage.saved.unwrap().len(), defaults::CATALOGUE_ENTRIES);
}
