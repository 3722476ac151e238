//! Several clients that share the session of one server.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::config::{Catalogue, Startup};
use mendline_core::{ClientId, ClientStreams, Input, UpstreamConfig};
use serde_json::{Value, json};
use stage::{CLIENT, NOTES, Stage, call};

const OTHER: ClientId = ClientId(1);
const RESULT: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"notes","version":"1"}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn initialize(id: u32, client: &str) -> String {
    let info = json!({ "name": client, "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params }).to_string()
}

fn request(id: u32, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn subscribe(id: u32, uri: &str) -> String {
    request(id, "resources/subscribe", &json!({ "uri": uri }))
}

fn set_level(id: u32, level: &str) -> String {
    request(id, "logging/setLevel", &json!({ "level": level }))
}

fn log(level: &str) -> String {
    let params = json!({ "level": level, "data": "x" });
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }).to_string()
}

/// Creates a stage with two clients, without a provisional handshake. Neither is initialized.
fn two_clients() -> Stage {
    let mut stage = Stage::with(|config: &mut UpstreamConfig| {
        config.catalogue = Catalogue { cache: false, startup: Startup::Wait };
    });
    stage.accept_dial();
    stage.input(Input::ClientOpened { client: OTHER, upstream: NOTES, streams: ClientStreams::One });
    stage
}

/// Initializes both: the server sees one handshake.
fn initialized() -> Stage {
    let mut stage = two_clients();
    stage.client_sends(&initialize(1, "one"));
    stage.server_answers(RESULT);
    stage.client_reads().unwrap();
    stage.client_sends(INITIALIZED);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
    stage.sends(OTHER, &initialize(7, "two"));
    assert_eq!(stage.reads(OTHER).expect("at once")["id"], 7);
    stage.sends(OTHER, INITIALIZED);
    assert_eq!(stage.server_reads(), None, "the server is initialized already");
    stage
}

/// Sends a request of a client, and lets the server confirm it.
fn confirmed(stage: &mut Stage, client: ClientId, text: &str) -> Value {
    stage.sends(client, text);
    let seen = stage.server_answers("{}");
    stage.reads(client).unwrap();
    seen
}

/// Sends a request that the server need not receive.
fn answered_at_once(stage: &mut Stage, client: ClientId, text: &str) {
    stage.sends(client, text);
    assert_eq!(stage.server_reads(), None, "{text}");
    assert_eq!(stage.reads(client).expect("an answer")["result"], json!({}), "{text}");
}

#[test]
fn later_client_gets_the_answer_of_the_first_handshake() {
    let mut stage = two_clients();
    stage.client_sends(&initialize(1, "one"));
    stage.server_answers(RESULT);
    let first = stage.client_reads().unwrap();
    stage.sends(OTHER, &initialize(7, "two"));
    let second = stage.reads(OTHER).unwrap();
    assert_eq!((&second["id"], &second["result"]), (&json!(7), &first["result"]));
    let completed = stage.server_reads().unwrap();
    assert_eq!(completed["method"], "notifications/initialized", "the second client may call at once");
    stage.client_sends(INITIALIZED);
    assert_eq!(stage.server_reads(), None, "once in a session");
}

#[test]
fn handshake_waits_for_one_in_flight() {
    let mut stage = two_clients();
    stage.client_sends(&initialize(1, "one"));
    stage.sends(OTHER, &initialize(7, "two"));
    assert_eq!(stage.server_reads().unwrap()["params"]["clientInfo"]["name"], "one");
    assert_eq!((stage.server_reads(), stage.reads(OTHER)), (None, None));
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":65536,"result":{RESULT}}}"#));
    assert_eq!(stage.client_reads().unwrap()["id"], 1);
    assert_eq!(stage.reads(OTHER).unwrap()["id"], 7);
}

#[test]
fn next_handshake_begins_if_the_first_is_refused_or_given_up() {
    for gives_up in [false, true] {
        let mut stage = two_clients();
        stage.client_sends(&initialize(1, "one"));
        let id = stage.server_reads().unwrap()["id"].clone();
        stage.sends(OTHER, &initialize(7, "two"));
        if gives_up {
            stage.input(Input::ClientLost { client: CLIENT });
        } else {
            stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no"}}}}"#));
            assert_eq!(stage.client_reads().unwrap()["error"]["code"], -32602);
        }
        let second = stage.server_answers(RESULT);
        assert_eq!(second["params"]["clientInfo"]["name"], "two", "gives up: {gives_up}");
        assert_eq!(stage.reads(OTHER).unwrap()["id"], 7);
    }
}

#[test]
fn cancelled_waiting_handshake_is_not_answered() {
    let mut stage = two_clients();
    stage.client_sends(&initialize(1, "one"));
    stage.sends(OTHER, &initialize(7, "two"));
    stage.sends(OTHER, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
    stage.server_answers(RESULT);
    assert_eq!(stage.reads(OTHER), None);
}

#[test]
fn session_of_gone_client_serves_the_next_one() {
    let mut stage = initialized();
    stage.input(Input::ClientLost { client: CLIENT });
    let third = ClientId(2);
    stage.input(Input::ClientOpened { client: third, upstream: NOTES, streams: ClientStreams::One });
    stage.sends(third, &initialize(1, "three"));
    assert_eq!(stage.reads(third).unwrap()["result"]["serverInfo"]["name"], "notes");
    stage.sends(third, &call("2", "create_note"));
    assert_eq!(stage.server_answers("{}")["method"], "tools/call");
    assert_eq!(stage.reads(third).unwrap()["id"], 2);
}

#[test]
fn server_gets_the_most_verbose_level_and_each_client_its_own() {
    let mut stage = initialized();
    confirmed(&mut stage, CLIENT, &set_level(2, "info"));
    answered_at_once(&mut stage, OTHER, &set_level(8, "error"));
    for (level, for_one, for_other) in [("debug", false, false), ("info", true, false), ("error", true, true)] {
        stage.server_sends(&log(level));
        let read = (stage.client_reads().is_some(), stage.reads(OTHER).is_some());
        assert_eq!(read, (for_one, for_other), "{level}");
    }
    assert_eq!(confirmed(&mut stage, OTHER, &set_level(9, "debug"))["params"]["level"], "debug", "more verbose");
    stage.server_sends(&log("debug"));
    assert_eq!((stage.client_reads(), stage.reads(OTHER).is_some()), (None, true));
}

#[test]
fn updates_go_to_subscribers_until_the_last_unsubscribes() {
    let mut stage = initialized();
    let updated = |stage: &mut Stage, uri: &str| {
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
        stage.server_sends(&notice.to_string());
        (stage.client_reads().is_some(), stage.reads(OTHER).is_some())
    };
    confirmed(&mut stage, CLIENT, &subscribe(2, "note:1"));
    confirmed(&mut stage, OTHER, &subscribe(8, "note:2"));
    assert_eq!(updated(&mut stage, "note:1"), (true, false));
    assert_eq!(updated(&mut stage, "note:2"), (false, true));
    confirmed(&mut stage, OTHER, &subscribe(9, "note:1"));
    assert_eq!(updated(&mut stage, "note:1"), (true, true));
    let unsubscribe = |id| request(id, "resources/unsubscribe", &json!({ "uri": "note:1" }));
    answered_at_once(&mut stage, CLIENT, &unsubscribe(3));
    assert_eq!(updated(&mut stage, "note:1"), (false, true));
    assert_eq!(confirmed(&mut stage, OTHER, &unsubscribe(10))["method"], "resources/unsubscribe", "the last one");
}

#[test]
fn subscriptions_of_gone_client_end_unless_others_have_them() {
    let mut stage = initialized();
    for (client, id, uri) in [(CLIENT, 2, "note:1"), (CLIENT, 3, "note:2"), (OTHER, 8, "note:2")] {
        confirmed(&mut stage, client, &subscribe(id, uri));
    }
    stage.input(Input::ClientLost { client: CLIENT });
    let ended = stage.server_answers("{}");
    assert_eq!((&ended["method"], &ended["params"]["uri"]), (&json!("resources/unsubscribe"), &json!("note:1")));
    assert_eq!(stage.server_reads(), None);
    // Only the remaining one is restored for the next process.
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    stage.server_answers(RESULT);
    let methods: Vec<_> = std::iter::from_fn(|| stage.server_reads())
        .map(|it| (it["method"].clone(), it["params"]["uri"].clone()))
        .collect();
    assert_eq!(
        methods,
        [(json!("notifications/initialized"), Value::Null), (json!("resources/subscribe"), json!("note:2"))]
    );
}

#[test]
fn request_of_server_goes_to_the_client_whose_call_runs() {
    let mut stage = initialized();
    let sample = r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}"#;
    stage.sends(OTHER, &call("8", "ask"));
    let running = stage.server_reads().unwrap();
    stage.server_sends(sample);
    assert_eq!(stage.client_reads(), None);
    let asked = stage.reads(OTHER).unwrap();
    assert_eq!(asked["method"], "sampling/createMessage");
    stage.sends(OTHER, &json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "text": "y" } }).to_string());
    assert_eq!(stage.server_reads().unwrap()["id"], "q");
    // Two clients have a call in flight: it cannot be told whose request it is.
    stage.client_sends(&call("2", "ask"));
    stage.server_reads().unwrap();
    stage.server_sends(&sample.replace("\"q\"", "\"r\""));
    let declined = stage.server_reads().unwrap();
    assert_eq!((&declined["id"], declined["error"]["code"].is_i64()), (&json!("r"), true));
    assert_eq!((stage.client_reads(), stage.reads(OTHER)), (None, None));
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, running["id"]));
    assert_eq!(stage.reads(OTHER).unwrap()["id"], 8);
}

#[test]
fn cancelled_request_of_server_is_withdrawn_from_its_client_only() {
    let mut stage = initialized();
    stage.sends(OTHER, &call("8", "ask"));
    stage.server_reads().unwrap();
    stage.server_sends(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    let asked = stage.reads(OTHER).unwrap()["id"].clone();
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#);
    assert_eq!(stage.reads(OTHER).unwrap()["params"]["requestId"], asked);
    assert_eq!(stage.client_reads(), None);
    assert!(!stage.log.iter().any(|line| line.contains("dropped")), "{:?}", stage.log);
}

#[test]
fn gone_clients_are_forgotten() {
    let mut stage = initialized();
    for number in 10..60 {
        let client = ClientId(number);
        stage.input(Input::ClientOpened { client, upstream: NOTES, streams: ClientStreams::One });
        stage.sends(client, &initialize(1, "short"));
        stage.reads(client).unwrap();
        stage.input(Input::ClientLost { client });
        assert_eq!(stage.reads(client), None);
    }
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(stage.server_answers("{}")["method"], "tools/call");
    stage.client_reads().unwrap();
    let load = stage.engine.load();
    assert_eq!((load.requests, load.for_clients), (0, 0));
}

#[test]
fn list_change_that_one_client_reads_first_is_announced_to_the_others() {
    let mut stage = initialized();
    let list = |id| request(id, "tools/list", &json!({}));
    let read = |stage: &mut Stage, client, id, tools: &str| {
        stage.sends(client, &list(id));
        assert_eq!(stage.server_answers(tools)["method"], "tools/list");
        stage.reads(client).unwrap();
    };
    let (old, new) = (r#"{"tools":[{"name":"a"}]}"#, r#"{"tools":[{"name":"a"},{"name":"b"}]}"#);
    read(&mut stage, CLIENT, 2, old);
    read(&mut stage, OTHER, 8, old);
    assert_eq!((stage.client_reads(), stage.reads(OTHER)), (None, None), "nothing has changed");
    stage.server_sends(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    read(&mut stage, OTHER, 9, new);
    assert_eq!(stage.client_reads().expect("a notification")["method"], "notifications/tools/list_changed");
    assert_eq!(stage.reads(OTHER), None, "it has read the new list");
}

#[test]
fn choices_of_others_are_kept_when_a_request_is_given_up() {
    let mut stage = initialized();
    confirmed(&mut stage, CLIENT, &set_level(2, "info"));
    confirmed(&mut stage, CLIENT, &subscribe(3, "note:1"));
    // Both are sent before the server has confirmed what the other client asks for.
    stage.sends(OTHER, &subscribe(8, "note:1"));
    stage.server_answers("{}");
    stage.reads(OTHER).unwrap();
    stage.sends(OTHER, &set_level(9, "debug"));
    stage.server_reads().unwrap();
    stage.input(Input::ClientLost { client: OTHER });
    assert_eq!(stage.server_reads(), None, "a more verbose level takes nothing from others");
    let third = ClientId(2);
    stage.input(Input::ClientOpened { client: third, upstream: NOTES, streams: ClientStreams::One });
    stage.sends(third, &initialize(1, "three"));
    stage.reads(third).unwrap();
    // It waits for the choice of another client that is in flight.
    stage.sends(third, &set_level(2, "debug"));
    let debug = stage.server_reads().unwrap()["id"].clone();
    stage.client_sends(&set_level(4, "error"));
    assert_eq!(stage.server_reads(), None);
    stage.server_sends(&format!(r#"{{"jsonrpc":"2.0","id":{debug},"result":{{}}}}"#));
    assert_eq!(stage.server_answers("{}")["params"]["level"], "error");
    let restored = stage.server_reads().expect("the more verbose level is set again");
    assert_eq!((&restored["method"], &restored["params"]["level"]), (&json!("logging/setLevel"), &json!("debug")));
}

#[test]
fn handshake_does_not_wait_for_calls_of_others() {
    let mut stage = two_clients();
    stage.client_sends(&call("1", "create_note"));
    assert_eq!(stage.server_reads().unwrap()["method"], "tools/call");
    stage.sends(OTHER, &initialize(7, "two"));
    assert_eq!(stage.server_reads().expect("at once")["method"], "initialize");
}

#[test]
fn later_client_completes_no_handshake_that_is_in_flight_again() {
    let mut stage = two_clients();
    stage.client_sends(&initialize(1, "one"));
    stage.server_answers(RESULT);
    stage.client_reads().unwrap();
    stage.die(stage.written);
    stage.next_dial();
    stage.accept_dial();
    assert_eq!(stage.server_reads().unwrap()["method"], "initialize");
    stage.sends(OTHER, &initialize(7, "two"));
    assert_eq!(stage.server_reads(), None, "the handshake is not answered");
}
