//! `--own-tools`: the state of the server inside of the client.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, MENDLINE, SOON, eventually, kill};
use crate::stage::{Stage, demo, file};

fn tools(client: &mut Client, id: &str) -> Value {
    client.request(id, "tools/list", &json!({}));
    client.answer(id)["result"].clone()
}

fn names(list: &Value) -> Vec<String> {
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn client_sees_the_status_tool_only_if_it_is_wanted() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut plain = stage.client(&["notes"]);
    let before = names(&tools(&mut plain, "a"));
    assert!(!before.contains(&"mendline_status".to_owned()), "{before:?}");
    let mut client = stage.client(&["notes", "--own-tools"]);
    let (first, second) = (tools(&mut client, "a"), tools(&mut client, "b"));
    assert_eq!(names(&first), [before, vec!["mendline_status".to_owned()]].concat());
    assert_eq!(first, second, "the list is stable");
    let text = client.result("s", "mendline_status", &json!({})).to_string();
    assert!(text.contains("available") && text.contains("Tool calls: 0 ok"), "{text}");
    client.request("r", "resources/read", &json!({ "uri": "mendline://status" }));
    let read = client.answer("r")["result"]["contents"][0].clone();
    assert_eq!(read["uri"], json!("mendline://status"), "{read}");
    client.request("l", "resources/list", &json!({}));
    let listed = client.answer("l");
    assert!(listed["result"]["resources"].to_string().contains("mendline://status"), "{listed}");
}

#[test]
fn status_tool_answers_while_the_server_is_away() {
    let stage = Stage::empty();
    let program = stage.other("server", &format!("#!/bin/sh\nexec {MENDLINE} demo-server\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let entry = json!({ "command": program, "ownTools": true });
    stage.client_file("mendline/config.json", &file(&json!({ "notes": entry })));
    let mut client = stage.client(&["notes"]);
    let server = *stage.started().last().unwrap();
    // The program cannot be started again.
    fs::remove_file(program).unwrap();
    kill(server, Signal::KILL);
    eventually("the server is away", SOON, || {
        let text = client.result("s", "mendline_status", &json!({})).to_string();
        text.contains("not available") && text.contains("Last error")
    });
}
