//! Changes of a configuration file while a server runs from it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, SOON, eventually, failure};
use crate::site::{Site, event_answers, json_answers};
use crate::stage::{SECRET, Stage, demo, file};

/// The deadline for the effect of a change. Mendline reads the file every second.
const SEEN: Duration = Duration::from_secs(20);

fn with(key: &str, value: Value) -> String {
    let mut entry = demo();
    entry[key] = value;
    file(&json!({ "notes": entry }))
}

fn wait_for_log(client: &Client, words: &str) {
    eventually(words, SEEN, || client.log().contains(words));
}

fn is_timed_out(result: &Value) -> bool {
    result.to_string().contains("timed_out")
}

#[test]
fn x97_reload_during_calls_applies_to_new_calls_and_loses_none() {
    let stage = Stage::with(&with("timeouts", json!({ "call": "1m" })));
    let mut client = stage.client(&["notes"]);
    let done = stage.path().with_file_name("done");
    client.call("old", "create_note", &json!({ "key": "old", "until": done }));
    eventually("it runs", SOON, || stage.executions("create_note", "old") == 1);
    stage.write(&with("timeouts", json!({ "call": "300ms" })));
    wait_for_log(&client, "new policies apply to new calls");
    client.call("new", "lookup", &json!({ "key": "new", "delayMs": 60_000 }));
    assert!(is_timed_out(&client.answer("new")["result"]), "the new policy holds for it");
    fs::write(done, "").unwrap();
    let old = client.answer("old");
    assert!(old.to_string().contains("wrote old"), "what runs keeps its own: {old}");
    assert_eq!(stage.executions("create_note", "old"), 1);
    assert_eq!(stage.started().len(), 1, "nothing was restarted for a policy");
}

#[test]
fn x97_reload_of_command_replaces_server_after_its_calls() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut client = stage.client(&["notes"]);
    let done = stage.path().with_file_name("done");
    client.call("old", "create_note", &json!({ "key": "old", "until": done }));
    eventually("it runs", SOON, || stage.executions("create_note", "old") == 1);
    stage.write(&with("env", json!({ "CHANGED": "yes" })));
    wait_for_log(&client, "the server is replaced when no call is in flight");
    // The old server remains in use meanwhile.
    let result = client.result("meanwhile", "lookup", &json!({ "key": "m" }));
    assert!(result.to_string().contains("m is 42"), "{result}");
    assert_eq!(stage.started().len(), 1);
    fs::write(done, "").unwrap();
    let old = client.answer("old");
    assert!(old.to_string().contains("wrote old"), "{old}");
    let result = client.result("new", "lookup", &json!({ "key": "n" }));
    assert!(result.to_string().contains("n is 42"), "{result}");
    eventually("another server", SOON, || stage.started().len() == 2);
    let environment = std::fs::read(format!("/proc/{}/environ", stage.started()[1])).unwrap();
    assert!(String::from_utf8_lossy(&environment).contains("CHANGED=yes"));
    assert_eq!(stage.executions("create_note", "old"), 1);
}

/// The handshake is a call too, so the test sets the short timeout only when the server is up.
#[test]
fn progress_extends_call_only_up_to_total_timeout() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut client = stage.client(&["notes"]);
    stage.write(&with("timeouts", json!({ "total": "700ms" })));
    wait_for_log(&client, "new policies apply");
    let arguments = json!({ "key": "k", "steps": 100_000, "stepMs": 50 });
    let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": 1 } });
    let begin = Instant::now();
    client.request("a", "tools/call", &params);
    let result = client.answer("a")["result"].clone();
    assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    assert!(begin.elapsed() >= Duration::from_millis(700), "{:?}", begin.elapsed());
}

#[test]
fn x98_invalid_reload_keeps_old_configuration_and_logs_reason() {
    let stage = Stage::with(&with("timeouts", json!({ "call": "1m" })));
    let mut client = stage.client(&["notes"]);
    for (text, words) in [
        ("{ \"mcpServers\": ", "this is not JSON"),
        (&with("timeouts", json!({ "call": "-1" })), "`call` must be a duration"),
        (&file(&json!({ "other": demo() })), "there is no server \"notes\""),
        (&with("disabled", json!(true)), "\"notes\" is disabled"),
    ] {
        let before = client.log().matches("the old configuration stays").count();
        stage.write(text);
        wait_for_log(&client, words);
        eventually("the log reports it", SEEN, || client.log().matches("the old configuration stays").count() > before);
        let result = client.result("1", "lookup", &json!({ "key": "k", "delayMs": 400 }));
        assert!(result.to_string().contains("k is 42"), "{result}");
    }
    stage.write(&with("timeouts", json!({ "call": "200ms" })));
    wait_for_log(&client, "new policies apply");
    assert!(is_timed_out(&client.result("2", "lookup", &json!({ "key": "k", "delayMs": 60_000 }))));
    assert_eq!(stage.started().len(), 1);
}

#[test]
fn sighup_reloads_file_at_once() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut client = stage.client(&["notes"]);
    stage.write(&with("tools", json!({ "lookup": { "timeout": "200ms" } })));
    client.signal(Signal::HUP);
    wait_for_log(&client, "new policies apply");
    assert!(is_timed_out(&client.result("1", "lookup", &json!({ "key": "k", "delayMs": 60_000 }))));
    // The second signal finds no change and ends nothing.
    client.signal(Signal::HUP);
    let result = client.result("2", "create_note", &json!({ "key": "k" }));
    assert!(result.to_string().contains("wrote k"), "{result}");
}

#[test]
fn corrected_command_is_tried_at_once() {
    let stage = Stage::with(&file(&json!({ "notes": { "command": "/nonexistent/server" } })));
    let mut command = stage.command(&["run", "--startup", "wait", "notes"]);
    let mut client = Client::start(command.stdin(std::process::Stdio::piped()));
    client.read_log();
    wait_for_log(&client, "was not found");
    stage.write(&file(&json!({ "notes": demo() })));
    eventually("it is started", SEEN, || stage.started().len() == 1);
    assert_eq!(client.initialize(), "demo-server");
}

#[test]
fn x97_reload_of_url_moves_after_calls_to_old_url() {
    let (old, new) = (Site::start(json_answers()), Site::start(event_answers()));
    let at = |site: &Site| file(&json!({ "notes": { "url": site.url(), "headers": { "X-Key": "${STAGE_TOKEN}" } } }));
    let stage = Stage::with(&at(&old));
    let mut client = Client::start(stage.command(&["run", "notes"]).stdin(std::process::Stdio::piped()));
    client.read_log();
    client.initialize();
    let done = stage.path().with_file_name("done");
    client.call("old", "create_note", &json!({ "key": "old", "until": done }));
    old.until("it runs", |counts| counts.executions_of("old") == 1);
    stage.write(&at(&new));
    wait_for_log(&client, "the server is replaced when no call is in flight");
    client.result("meanwhile", "lookup", &json!({ "key": "meanwhile" }));
    assert_eq!((old.executions("meanwhile"), new.counts().posts), (1, 0));
    fs::write(done, "").unwrap();
    let answer = client.answer("old");
    assert!(answer.to_string().contains("wrote old"), "{answer}");
    let result = client.result("new", "create_note", &json!({ "key": "new" }));
    assert!(result.to_string().contains("wrote new"), "{result}");
    assert_eq!((old.executions("old"), old.executions("new"), new.executions("new")), (1, 0, 1));
    assert_eq!(new.counts().sessions_opened, 1, "the new server was initialized");
    assert!(!client.whole_log().contains(SECRET));
}
