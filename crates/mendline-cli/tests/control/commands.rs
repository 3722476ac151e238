//! `reconnect`, `isolate` and `resume` for running servers.

use rustix::process::Signal;
use serde_json::json;

use crate::client::{MENDLINE, failure, kill};
use crate::site::{Site, json_answers};
use crate::stage::{CommandOutput, Stage, child, kind, until_gone};
use crate::terminal::Terminal;

#[test]
fn reconnect_of_child_starts_new_process_without_loss() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let before = stage.until("notes", "it is ready", |server| kind(server) == "ready");
    let output = stage.control(&["reconnect", "notes"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stdout.starts_with(&format!("notes (process {}): ready again, in ", client.process.id())),
        "{output:?}"
    );
    let after = stage.until("notes", "it is ready", |server| kind(server) == "ready");
    assert_ne!(child(&after), child(&before));
    until_gone(child(&before));
    assert_eq!((&after["connection"]["losses"], &after["lastError"]), (&json!(0), &json!(null)), "no loss is counted");
    assert_eq!(client.result("a", "lookup", &json!({ "key": "k" }))["content"][0]["text"], "k is 42");
}

#[test]
fn failed_reconnect_reports_reason() {
    let stage = Stage::new();
    let _client = stage.run(&["--name", "ghost", "--", "/nonexistent/server"]);
    stage.until("ghost", "it is parked", |server| kind(server) == "parked");
    let output = stage.control(&["reconnect", "ghost"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("parked: `/nonexistent/server` was not found"), "{output:?}");
    assert_eq!(
        stage.control(&["reconnect", "--no-wait", "ghost"]).code,
        Some(0),
        "the command returned without waiting"
    );
}

#[test]
fn reconnect_brings_repaired_parked_server_back_at_once() {
    let stage = Stage::new();
    let program = stage.folder().join("server");
    let mut client = stage.run(&["--name", "mended", "--", program.to_str().unwrap(), "demo-server"]);
    stage.until("mended", "it is parked", |server| kind(server) == "parked");
    std::os::unix::fs::symlink(MENDLINE, &program).unwrap();
    let output = stage.control(&["reconnect", "mended"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    client.initialize();
    stage.until("mended", "it is ready", |server| kind(server) == "ready");
}

#[test]
fn reconnect_over_http_keeps_session() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let mut client = stage.run(&["--name", "far", &site.url()]);
    client.initialize();
    let output = stage.control(&["reconnect", "far"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = client.result("a", "create_note", &json!({ "key": "k" }));
    assert_eq!(result["content"][0]["text"], "wrote k", "{result}");
    assert_eq!(site.executions("k"), 1);
}

#[test]
fn isolated_server_gets_no_calls_until_resumed() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let output = stage.control(&["isolate", "notes"]);
    assert!(output.code == Some(0) && output.stdout.contains("isolated; nothing is sent to it until"), "{output:?}");
    let server = stage.server("notes");
    assert_eq!((kind(&server), &server["breaker"]["state"]), ("isolated", &json!("isolated")));
    let result = client.result("a", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["cause"], "breaker_open", "{result}");
    let output = stage.control(&["isolate", "notes"]);
    assert!(output.code == Some(0) && output.stdout.contains("it is isolated already"), "{output:?}");
    let output = stage.control(&["reconnect", "notes"]);
    assert!(output.code == Some(1) && output.stdout.contains("`mendline resume notes`"), "{output:?}");
    let output = stage.control(&["resume", "--all"]);
    assert!(output.code == Some(0) && output.stdout.contains("resumed"), "{output:?}");
    assert_eq!(client.result("b", "lookup", &json!({ "key": "k" }))["content"][0]["text"], "k is 42");
    assert_eq!(kind(&stage.server("notes")), "ready");
}

#[test]
fn child_that_dies_while_isolated_restarts_only_after_resume() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    assert_eq!(stage.control(&["isolate", "notes"]).code, Some(0));
    let server = stage.server("notes");
    kill(child(&server), Signal::KILL);
    let server = stage.until("notes", "its child is gone", |server| server["connection"]["child"].is_null());
    assert_eq!(kind(&server), "isolated", "{server:#}");
    assert_eq!(stage.control(&["resume", "notes"]).code, Some(0));
    stage.until("notes", "it is back", |server| kind(server) == "ready");
    assert_eq!(client.result("a", "lookup", &json!({ "key": "k" }))["content"][0]["text"], "k is 42");
}

#[test]
fn servers_with_same_name_are_selected_by_pid() {
    let stage = Stage::new();
    let (one, two) = (stage.bridge("notes"), stage.bridge("notes"));
    let _other = stage.bridge("files");
    let report = stage.report_until(|report| report["servers"].as_array().unwrap().len() == 3);
    let mut ids: Vec<_> = report["servers"].as_array().unwrap().iter().map(|server| server["id"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    let mut expected = [one.process.id(), two.process.id()].map(|pid| json!(format!("notes#{pid}")));
    expected.sort_by_key(ToString::to_string);
    assert_eq!(ids, [&[json!("files")], &expected[..]].concat());
    let output = stage.control(&["isolate", &format!("notes#{}", one.process.id())]);
    assert!(output.code == Some(0) && output.stdout.lines().count() == 1, "{output:?}");
    let is_heard = |output: &CommandOutput| !output.stdout.contains("does not answer");
    let output = stage.query_until(&["status", &one.process.id().to_string()], is_heard);
    assert_eq!(output.code, Some(1), "by its process alone: {output:?}");
    let output = stage.query_until(&["status", &format!("notes#{}", two.process.id())], is_heard);
    assert_eq!(output.code, Some(0), "{output:?}");
    let output = stage.control(&["reconnect", "--all"]);
    assert_eq!((output.code, output.stdout.lines().count()), (Some(1), 3), "one of them is isolated: {output:?}");
}

#[test]
fn unknown_server_name_lists_running_servers() {
    let stage = Stage::new();
    for command in ["status", "reconnect", "isolate", "resume"] {
        let output = stage.query(&[command, "notes"]);
        assert!(output.code == Some(3) && output.stderr.contains("mendline run"), "{command}: {output:?}");
    }
    let _client = stage.bridge("notes");
    for command in ["status", "reconnect", "isolate", "resume"] {
        // A process that does not answer in time is listed by its pid, and then no name is similar.
        let output = stage.query_until(&[command, "nots"], |output| output.stderr.contains("did you mean \"notes\"?"));
        assert_eq!(output.code, Some(3), "{command}: {output:?}");
    }
    for command in ["reconnect", "isolate", "resume"] {
        assert_eq!(stage.query(&[command]).code, Some(2), "{command} of what?");
        assert_eq!(stage.query(&[command, "notes", "--all"]).code, Some(2), "{command}: which of both?");
    }
}

#[test]
fn u09_terminal_gets_a_hint_and_a_client_does_not() {
    let stage = Stage::new();
    let line = ["run", "--", MENDLINE, "demo-server"];
    let terminal = Terminal::start(&stage.command(&line), 120, 30);
    terminal.until("Waiting for an MCP client on stdin. To try a server: mendline tools -- CMD");
    let mut client = stage.bridge("notes");
    let log = client.whole_log();
    assert!(log.contains("ready") && !log.contains("Waiting for an MCP client"), "{log}");
}
