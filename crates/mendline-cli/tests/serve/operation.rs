//! The operation of a gateway: shutdown, readiness, status and events.

use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use super::call;
use super::gateway::{Gateway, MENDLINE, eventually};

#[test]
fn i17_running_call_ends_and_new_request_is_refused_at_shutdown() {
    let mut gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..])];
    let mut stream = gateway.send("GET", "/mcp/demo", &headers, "");
    let mut slow = gateway.post(&headers, &call(2, "lookup", &json!({ "key": "a", "delayMs": 4_000 })));
    gateway.signal(rustix::process::Signal::TERM);
    eventually("it is not ready", || gateway.send("GET", "/readyz", &[], "").status == 503);
    let refused = gateway.post(&headers, &call(3, "lookup", &json!({ "key": "a" })));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(slow.message()["result"]["content"][0]["text"], "a is 42", "the running call is answered");
    while stream.event().is_some() {}
    assert!(stream.ended_cleanly(), "the stream ends, and is not cut");
    assert_eq!(gateway.wait(), Some(0));
}

#[test]
fn status_of_server_has_each_fact_apart() {
    let gateway = Gateway::start(&[]);
    let facts = |gateway: &Gateway| gateway.server_status("demo")["facts"].clone();
    assert_eq!((&facts(&gateway)["process"], &facts(&gateway)["session"]), (&json!("idle"), &json!("none")));
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..])];
    gateway.post(&headers, &super::request(2, "tools/list", &json!({}))).json();
    gateway.post(&headers, &call(3, "lookup", &json!({ "key": "a" }))).json();
    let facts = facts(&gateway);
    assert_eq!((&facts["process"], &facts["session"]), (&json!("running"), &json!("ready")));
    assert_eq!((&facts["lastCall"]["ok"], &facts["credential"]), (&json!(true), &json!("current")));
    assert!(facts["listAgeMs"].is_u64(), "{facts}");
    let page = gateway.send("GET", "/readyz/demo", &[], "").json();
    assert_eq!((&page["ready"], &page["facts"]["process"]), (&json!(true), &json!("running")));
}

#[test]
fn server_that_cannot_start_is_not_ready() {
    let gateway = Gateway::with_servers(&json!({ "demo": {}, "broken": { "command": "/does/not/exist" } }));
    let answer = gateway.send("POST", "/mcp/broken", &[], &call(1, "lookup", &json!({})));
    assert_eq!(answer.status, 200, "its failure is an answer");
    eventually("it is not ready", || gateway.send("GET", "/readyz/broken", &[], "").status == 503);
    assert_eq!(gateway.send("GET", "/readyz", &[], "").status, 200, "the gateway itself is");
    assert_eq!(gateway.send("GET", "/readyz/demo", &[], "").status, 200, "and so is the other server");
}

#[test]
fn events_are_streamed() {
    let gateway = Gateway::start(&[]);
    let mut events = gateway.send("GET", "/api/events", &[], "");
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    gateway.initialize("2025-11-25");
    let event = events.event().unwrap();
    let record: Value = serde_json::from_str(&event.data).unwrap();
    assert_eq!((event.name.as_deref(), &record["server"]), (Some("event"), &json!("demo")), "{record}");
}

/// Runs a command of Mendline against the gateway.
fn run(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(MENDLINE).args(arguments).envs(gateway.environment()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[test]
fn status_logs_and_reconnect_work_against_a_gateway() {
    let gateway = Gateway::with_servers(&json!({ "demo": {}, "second": {} }));
    let session = gateway.initialize("2025-11-25");
    let (_, text) = run(&gateway, &["status", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        report["servers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["demo", "second"]);
    let page = gateway.send("GET", "/api/status", &[], "").json();
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&page["servers"][0]), members(&report["servers"][0]), "the same format");
    assert_eq!(members(&page), members(&report));
    assert!(run(&gateway, &["reconnect", "demo"]).0);
    let answer = gateway.post(&[("Mcp-Session-Id", &session)], &call(2, "lookup", &json!({ "key": "a" }))).json();
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
    let (is_ok, text) = run(&gateway, &["logs", "demo"]);
    assert!(is_ok, "{text}");
}

#[test]
fn logs_of_gateway_are_selected_by_server() {
    let gateway = Gateway::with_servers(&json!({ "demo": {}, "second": {} }));
    gateway.initialize("2025-11-25");
    gateway.send("POST", "/mcp/second", &[], &super::initialize("2025-11-25")).json();
    let logs = |name: &str| run(&gateway, &["logs", name, "--json"]);
    let servers = |text: &str| {
        let record = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let mut names: Vec<Value> = text.lines().map(|line| record(line)["server"].clone()).collect();
        names.dedup();
        names
    };
    for name in ["demo", "second"] {
        eventually("the server is logged", || logs(name).0);
        assert_eq!(servers(&logs(name).1), [json!(name)]);
    }
    let (is_ok, text) = logs("serve");
    assert!(is_ok && text.contains("serving second at"), "{text}");
    assert_eq!(servers(&text), [Value::Null], "lines of the gateway itself belong to no server");
    let folder = std::fs::read_dir(gateway.state().join("logs")).unwrap();
    let names: Vec<String> = folder.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("serve.")), "{names:?}");
    let (is_ok, text) = logs("third");
    assert!(!is_ok && text.contains("There are logs of: demo, second, serve"), "{text}");
}

#[test]
fn sigusr1_reconnects_all_servers_of_a_gateway() {
    let gateway = Gateway::with_servers(&json!({ "demo": {}, "second": {} }));
    gateway.write_servers(&json!({ "second": {}, "third": {} }));
    eventually("the file is reloaded", || gateway.send("GET", "/readyz/third", &[], "").status == 200);
    let names = ["second", "third"];
    for name in names {
        gateway.send("POST", &format!("/mcp/{name}"), &[], &call(1, "lookup", &json!({ "key": "a" }))).json();
    }
    let pid = |name: &str| gateway.server_status(name)["connection"]["child"].clone();
    let before = names.map(pid);
    assert!(before.iter().all(Value::is_u64), "{before:?}");
    gateway.signal(rustix::process::Signal::USR1);
    eventually("each server has a new process", || {
        names.iter().zip(&before).all(|(name, before)| {
            let pid = pid(name);
            pid.is_u64() && pid != *before
        })
    });
}

#[test]
fn many_clients_open_and_leave_at_once() {
    let gateway = Gateway::with_servers(&json!({ "demo": { "sharing": "perClient" } }));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let session = gateway.initialize("2025-11-25");
                    let headers = [("Mcp-Session-Id", &session[..])];
                    let answer = gateway.post(&headers, &call(2, "lookup", &json!({ "key": "a" }))).json();
                    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
                    assert_eq!(gateway.send("DELETE", "/mcp/demo", &headers, "").status, 204);
                }
            });
        }
    });
    eventually("no process is left", || {
        gateway.children().is_empty() && gateway.server_status("demo")["sessions"] == 0
    });
}

/// Runs `mendline run --via auto demo` with one call. Returns its answer, and its log.
fn call_via(environment: &[(&str, std::path::PathBuf)], config: &std::path::Path) -> (Value, String) {
    use std::io::{BufRead, BufReader, Write};
    let mut command = Command::new(MENDLINE);
    command.args(["run", "--via", "auto", "--config"]).arg(config).arg("demo").envs(environment.iter().cloned());
    command.env_remove("MENDLINE_LOG");
    let pipe = std::process::Stdio::piped;
    let mut process = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut answer = |request: String| -> Value {
        writeln!(stdin, "{request}").unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    answer(super::initialize("2025-11-25"));
    let answer = answer(call(2, "lookup", &json!({ "key": "a" })));
    drop(stdin);
    let output = process.wait_with_output().unwrap();
    (answer, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn run_joins_a_gateway_and_works_alone_without_one() {
    let mut gateway = Gateway::with_servers(&json!({ "demo": {} }));
    let (environment, config) = (gateway.environment(), gateway.config());
    let (answer, log) = call_via(&environment, &config);
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
    assert!(log.contains("uses the gateway at"), "{log}");
    gateway.terminate();
    let (answer, log) = call_via(&environment, &config);
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
    assert!(!log.contains("uses the gateway at"), "{log}");
}

#[test]
fn run_works_alone_if_the_gateway_refuses_it_or_has_another_file() {
    let token = r#""access": { "tokens": [{ "name": "ann", "token": "ann-0123456789abcdef" }] }"#;
    let gateway = Gateway::configured(token, "", &[]);
    let (answer, log) = call_via(&gateway.environment(), &gateway.config());
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
    assert!(!log.contains("uses the gateway at"), "it needs a token: {log}");
    let gateway = Gateway::with_servers(&json!({ "demo": {} }));
    let other = gateway.state().join("other.json");
    std::fs::copy(gateway.config(), &other).unwrap();
    let (answer, log) = call_via(&gateway.environment(), &other);
    assert_eq!(answer["result"]["content"][0]["text"], "a is 42", "{answer}");
    assert!(!log.contains("uses the gateway at"), "it has another file: {log}");
}

#[test]
fn connection_to_passed_socket_waits_for_next_process() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut gateway = Gateway::with_socket(&socket);
    assert_eq!(gateway.address, socket.local_addr().unwrap());
    let session = gateway.initialize("2025-11-25");
    assert!(!session.is_empty());
    assert_eq!(gateway.terminate(), Some(0));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| gateway.send("GET", "/healthz", &[], "").text());
        let _next = Gateway::with_socket(&socket);
        assert_eq!(waiting.join().unwrap(), "ok\n");
    });
}

#[test]
fn passed_socket_off_loopback_needs_a_token() {
    let socket = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let gateway = Gateway::with_socket(&socket);
    let list = super::request(1, "tools/list", &json!({}));
    assert_eq!(gateway.post(&[], &list).status, 401, "--listen has a loopback address, the socket has not");
    let token = format!("Bearer {}", gateway.line("mdl_").trim());
    assert_eq!(gateway.post(&[("Authorization", &token)], &list).status, 200);
}

#[test]
fn metrics_of_a_gateway_count_the_calls_of_all_sessions() {
    let gateway = Gateway::with_servers(&json!({ "demo": { "sharing": "perClient" }, "second": {} }));
    for _ in 0..2 {
        let session = gateway.initialize("2025-11-25");
        gateway.post(&[("Mcp-Session-Id", &session)], &call(2, "lookup", &json!({ "key": "a" })));
    }
    let metrics = gateway.send("GET", "/metrics", &[], "").text();
    let value = |sample: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(sample));
        line.unwrap_or_else(|| panic!("{sample} is missing in\n{metrics}")).trim().to_owned()
    };
    let calls = r#"mendline_calls_total{server="demo",method="tools/call",tool="lookup",outcome="ok",reason=""}"#;
    assert_eq!((value(calls), value(r#"mendline_connections_total{server="demo"}"#)), ("2".to_owned(), "2".to_owned()));
    assert_eq!(metrics.matches("mendline_up{server=\"demo\"}").count(), 1, "{metrics}");
    assert_eq!(value(r#"mendline_connections_total{server="second"}"#), "0");
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn cancellation_is_accepted_while_the_gateway_stops() {
    let mut gateway = Gateway::start(&[]);
    let session = gateway.initialize("2025-11-25");
    let headers = [("Mcp-Session-Id", &session[..])];
    let mut running = gateway.post(&headers, &call(5, "slow", &json!({ "key": "a", "steps": 600, "stepMs": 100 })));
    gateway.signal(rustix::process::Signal::TERM);
    let lookup = call(6, "lookup", &json!({ "key": "a" }));
    eventually("requests are refused", || gateway.post(&headers, &lookup).status == 503);
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    assert_eq!(gateway.post(&headers, cancel).status, 202);
    while running.event().is_some() {}
    assert_eq!(gateway.wait(), Some(0));
}

#[test]
fn call_and_doctor_work_with_a_server_of_the_gateway() {
    let gateway = Gateway::start(&[]);
    let url = format!("http://{}/mcp/demo", gateway.address);
    // The commands must not find the gateway by its control socket.
    let state = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(MENDLINE);
        command.args(arguments).env("MENDLINE_STATE_DIR", state.path());
        command.env("MENDLINE_RUNTIME_DIR", state.path().join("run")).env_remove("MENDLINE_LOG");
        command.output().unwrap()
    };
    let called = run(&["call", &url, "lookup", r#"{"key": "a"}"#]);
    assert!(called.status.success(), "{called:?}");
    assert!(String::from_utf8_lossy(&called.stdout).contains("a is 42"), "{called:?}");
    let examined = run(&["doctor", &url]);
    assert!(examined.status.success(), "{examined:?}");
}
