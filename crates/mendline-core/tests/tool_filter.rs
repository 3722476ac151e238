//! Tools that the configuration denies: they are in no list, and calls of them reach no server.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod stage;

use mendline_core::policy::tool_filter::ToolFilter;
use mendline_core::port::Change;
use mendline_core::{Input, UpstreamConfig};
use mendline_wire::code;
use serde_json::{Value, json};
use stage::{NOTES, Stage, call};

/// Applies a list of denied tools to a running server.
fn deny(stage: &mut Stage, denied: &[&str]) {
    let mut config = UpstreamConfig::child("notes", "notes-server");
    config.tool_filter = ToolFilter::new(None, denied);
    stage.input(Input::Reconfigure { upstream: NOTES, config: Box::new(config), change: Change::Policies });
}

fn names(answer: &Value) -> Vec<&str> {
    answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn denied_tool_is_answered_and_never_sent() {
    let mut stage = Stage::up();
    deny(&mut stage, &["delete_*"]);
    stage.client_sends(&call("1", "delete_note"));
    assert_eq!(stage.server_reads(), None, "nothing reaches the server");
    let answer = stage.client_reads().unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(code::INVALID_PARAMS)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("delete_note"), "{answer}");
    stage.client_sends(&call("2", "create_note"));
    assert_eq!(stage.server_reads().unwrap()["params"]["name"], "create_note");
}

#[test]
fn list_has_no_denied_tool_after_a_reload() {
    let mut stage = Stage::up();
    let (list, tools) = (
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#,
        r#"{"tools":[{"name":"create_note"},{"name":"delete_note"}]}"#,
    );
    stage.client_sends(list);
    stage.server_answers(tools);
    assert_eq!(names(&stage.client_reads().unwrap()), ["create_note", "delete_note"]);
    deny(&mut stage, &["delete_*"]);
    stage.client_sends(list);
    stage.server_answers(tools);
    assert_eq!(names(&stage.client_reads().unwrap()), ["create_note"]);
}
