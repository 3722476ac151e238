//! The output of `status` for servers in known states.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use mendline_faults::Rule;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{MENDLINE, SOON, eventually, kill};
use crate::site::{Site, event_answers, json_answers};
use crate::stage::{Stage, child, kind};
use crate::terminal::Terminal;

#[test]
fn t03_tool_calls_are_counted_and_timed_apart_from_others() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    for number in 0..5 {
        client.result(&format!("c{number}"), "lookup", &json!({ "key": "k" }));
    }
    let server = stage.until("notes", "all is answered", |server| server["calls"]["tools"]["ok"] == 5);
    assert_eq!(kind(&server), "ready", "{server:#}");
    assert_eq!((&server["transport"], &server["id"]), (&json!("child"), &json!("notes")));
    assert_eq!(server["process"]["pid"], client.process.id());
    assert_eq!(server["process"]["client"], json!({ "name": "test", "version": "1" }));
    assert_eq!((&server["inFlight"], &server["waiting"]), (&json!(0), &json!(0)));
    let other = json!({ "ok": 2, "toolErrors": 0, "errors": 0, "failed": 0, "unknown": 0, "rejected": 0 });
    assert_eq!((&server["calls"]["other"], &server["calls"]["retried"]), (&other, &json!(0)));
    assert_eq!(server["latency"]["count"], 5, "handshake and lists are not counted");
    let [p50, p95, p99] = ["p50Us", "p95Us", "p99Us"].map(|name| server["latency"][name].as_u64().unwrap());
    assert!(p50 > 0 && p50 <= p95 && p95 <= p99, "{server:#}");
    assert_eq!((&server["connection"]["dials"], &server["connection"]["losses"]), (&json!(1), &json!(0)));
    assert!(server["childMemory"]["bytes"].as_u64().unwrap() > 100 * 1024, "{server:#}");
    assert_eq!((&server["breaker"]["state"], &server["lastError"]), (&json!("closed"), &Value::Null));
}

/// The test takes as long as a call may be silent: thirty seconds, which no setting changes.
#[test]
fn r12_age_of_silent_call_is_shown_until_it_is_answered() {
    let stage = Stage::new();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let mut client = stage.bridge("notes");
    client.call("slow", "create_note", &json!({ "key": "k", "until": gate }));
    let server = stage.until("notes", "it runs", |server| server["inFlight"] == 1);
    assert_eq!((&server["silentCalls"], &server["silentForMs"]), (&json!(0), &Value::Null), "{server:#}");
    eventually("the silence is reported", 3 * SOON, || client.log().contains("create_note: silent for 30 s"));
    let server = stage.until("notes", "it is silent", |server| server["silentCalls"] == 1);
    assert_eq!((kind(&server), &server["silentCall"]), ("ready", &json!("create_note")), "{server:#}");
    assert!(server["silentForMs"].as_u64().unwrap() >= 30_000, "{server:#}");
    let words = "1 call has had no answer for ";
    let detail = stage.query_until(&["status", "notes"], |output| output.stdout.contains(words));
    assert!(detail.stdout.contains(": create_note"), "{detail:?}");
    let terminal = Terminal::start(&stage.command(&["status", "--watch"]), 230, 30);
    terminal.until(words);
    terminal.press("q");
    std::fs::write(&gate, "").unwrap();
    client.answer("slow");
    stage.until("notes", "it is answered", |server| server["silentCalls"] == 0 && server["silentCall"].is_null());
    let reports = client.log().matches("silent for").count();
    assert_eq!(reports, 1, "one warning: {}", client.log());
}

#[test]
fn t03_errors_and_rejections_have_one_number_everywhere() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let options = ["--name", "notes", "--breaker-threshold", "2", "--breaker-reset", "60s"];
    let mut client = stage.run(&[&options[..], &[&site.url()]].concat());
    client.initialize();
    client.result("ok", "lookup", &json!({ "key": "k" }));
    client.call("error", "no_such_tool", &json!({}));
    client.answer("error");
    site.add_fault(Rule::new("h26_500").tool("create_note"));
    for id in ["a", "b"] {
        client.result(id, "create_note", &json!({ "key": id }));
    }
    stage.until("notes", "the breaker of the tool is open", |server| server["breaker"]["tools"][0]["state"] == "open");
    client.result("c", "create_note", &json!({ "key": "c" }));
    let server = stage.until("notes", "one was rejected", |server| server["calls"]["tools"]["rejected"] == 1);
    let tools = json!({ "ok": 1, "toolErrors": 0, "errors": 1, "failed": 0, "unknown": 2, "rejected": 1 });
    assert_eq!(server["calls"]["tools"], tools, "{server:#}");
    let terminal = Terminal::start(&stage.command(&["status", "--watch"]), 230, 30);
    let screen = terminal.until("tools: 1 ok, 1 error, 2 unknown, 1 rejected");
    terminal.press("q");
    let detail = stage.query_until(&["status", "notes"], |output| output.stdout.contains("tool calls"));
    assert!(detail.stdout.contains("tool calls  1 ok, 1 error, 2 unknown, 1 rejected"), "{detail:?}");
    let table = stage.query_until(&["status"], |output| output.stdout.contains("FAILED"));
    for (text, start) in [(&screen, "▸ notes"), (&table.stdout, "notes")] {
        let titles = text.lines().find(|line| line.contains("FAILED")).unwrap();
        let row = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{text}"));
        // Numbers end below the ends of their titles.
        let number = |title: &str| {
            let end = titles.find(title).unwrap() + title.len();
            let cell: String = row.chars().take(end).collect();
            cell.rsplit(' ').next().unwrap().to_owned()
        };
        let shown = ["OK", "ERRORS", "FAILED", "UNKNOWN"].map(number);
        assert_eq!(shown, ["3", "1", "1", "2"], "with the two requests of the handshake:\n{text}");
    }
}

#[test]
fn running_call_is_in_flight_and_cancelled_call_is_counted() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    client.call("slow", "lookup", &json!({ "key": "k", "delayMs": 600_000 }));
    stage.until("notes", "one is in flight", |server| server["inFlight"] == 1 && server["waiting"] == 0);
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}"#);
    let server = stage.until("notes", "it was cancelled", |server| server["calls"]["cancelled"] == 1);
    assert_eq!((&server["inFlight"], &server["waiting"]), (&json!(0), &json!(0)), "{server:#}");
}

#[test]
fn killed_child_counts_as_loss_and_gets_new_pid() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    let before = stage.until("notes", "it is ready", |server| kind(server) == "ready");
    kill(child(&before), Signal::KILL);
    let is_back = |server: &Value| server["connection"]["losses"] == 1 && kind(server) == "ready";
    let after = stage.until("notes", "it is back", is_back);
    assert_ne!(child(&after), child(&before));
    assert_eq!(after["connection"]["dials"], 2);
    let error = after["lastError"]["what"].as_str().unwrap();
    assert!(error.contains("killed by signal 9"), "{error}");
    assert_eq!(client.result("a", "lookup", &json!({ "key": "k" }))["content"][0]["text"], "k is 42");
}

#[test]
fn unknown_outcome_is_counted() {
    let stage = Stage::new();
    let arguments = ["--name", "notes", "--", MENDLINE, "demo-server", "--fault", "die-after=1"];
    let mut client = stage.run(&arguments);
    client.initialize();
    client.result("a", "create_note", &json!({ "key": "k" }));
    let server = stage.until("notes", "it failed", |server| server["calls"]["tools"]["unknown"] == 1);
    assert_eq!(server["calls"]["tools"]["failed"], 0, "{server:#}");
    assert_eq!(server["inFlight"], 0, "{server:#}");
    stage.query_until(&["status"], |output| {
        output.stdout.contains("last error") && output.stdout.contains("outcome_unknown")
    });
}

#[test]
fn missing_command_is_parked_and_sets_exit_code() {
    let stage = Stage::new();
    let _client = stage.run(&["--name", "ghost", "--", "/nonexistent/server"]);
    let server = stage.until("ghost", "it is parked", |server| kind(server) == "parked");
    assert!(server["state"]["why"].as_str().unwrap().contains("not found"), "{server:#}");
    assert!(server["state"]["nextInMs"].as_u64().unwrap() > 1_000, "{server:#}");
    assert_eq!(
        server["connection"],
        json!({ "dials": 1, "dialsFailed": 1, "losses": 0, "tookMs": null, "child": null })
    );
    let words = "ghost  parked: `/nonexistent/server` was not found";
    let output = stage.query_until(&["status", "ghost"], |output| output.stdout.starts_with(words));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(stage.query(&["status"]).code, Some(0), "without a filter every server is shown");
}

#[test]
fn unreachable_server_shows_attempts_and_call_waits() {
    let stage = Stage::new();
    // The port is bound without a listener: no other process can take it, and connections are refused.
    let reserved = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&reserved, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&reserved).unwrap()).unwrap();
    let mut client = stage.run(&["--name", "far", "--startup", "wait", &format!("http://{address}/mcp")]);
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    client.request("init", "initialize", &hello);
    let is_lost = |server: &Value| kind(server) == "reconnecting" && server["state"]["nextInMs"].is_u64();
    let server = stage
        .until("far", "it is reconnecting, and the call waits", |server| is_lost(server) && server["waiting"] == 1);
    assert_eq!(server["transport"], "http", "{server:#}");
    assert!(server["state"]["attempt"].as_u64().unwrap() >= 1, "{server:#}");
    assert!(server["lastError"]["what"].as_str().unwrap().contains("connection refused"), "{server:#}");
    assert_eq!(server["target"], format!("http://{address}"));
    stage.query_until(&["status"], |output| output.stdout.contains("reconnecting "));
}

#[test]
fn retry_after_pause_is_shown_with_remaining_time() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let mut client = stage.run(&["--name", "busy", &site.url()]);
    client.initialize();
    site.add_fault(Rule::new("h30_429_retry_after").tool("create_note").nth(1).value(json!(30)));
    client.call("a", "create_note", &json!({ "key": "k" }));
    let server = stage.until("busy", "it is paused", |server| server["limit"]["pausedMs"].is_u64());
    let left = server["limit"]["pausedMs"].as_u64().unwrap();
    assert!(left > 1_000 && left <= 30_000, "{server:#}");
    assert_eq!((kind(&server), &server["breaker"]["state"]), ("ready", &json!("closed")), "overload is not a failure");
    assert_eq!(server["waiting"], 1, "{server:#}");
    stage.query_until(&["status"], |output| output.stdout.contains("paused "));
}

#[test]
fn u10_server_needs_login_until_credential_is_accepted() {
    let renewed = "renew the credential of its entry (`mendline doctor guarded` shows what is missing), then restart the \
                   client";
    needs_login_until_accepted(&["--header", "Authorization: Bearer a-test-token"], renewed);
    needs_login_until_accepted(&[], "log in: `mendline login guarded`; the client stays connected");
}

fn needs_login_until_accepted(options: &[&str], step: &str) {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let mut client = stage.run(&[options, &["--name", "guarded", &site.url()]].concat());
    client.initialize();
    site.add_fault(Rule::new("a73_token_expired_401").verb("POST"));
    client.result("a", "lookup", &json!({ "key": "k" }));
    let server = stage.until("guarded", "it needs a login", |server| kind(server) == "needsLogin");
    assert!(server["state"]["why"].is_string(), "{server:#}");
    let output = stage.query_until(&["status", "guarded"], |output| !output.stdout.contains("does not answer"));
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains(step), "{output:?}");
    site.clear();
    client.result("b", "lookup", &json!({ "key": "k" }));
    stage.until("guarded", "it is ready again", |server| kind(server) == "ready");
}

#[test]
fn open_breaker_shows_reason_and_next_trial() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let options = ["--name", "sick", "--breaker-threshold", "2", "--breaker-reset", "60s"];
    let mut client = stage.run(&[&options[..], &[&site.url()]].concat());
    client.initialize();
    site.add_fault(Rule::new("h26_500").tool("create_note"));
    for id in ["a", "b"] {
        client.result(id, "create_note", &json!({ "key": id }));
    }
    let open = |server: &Value| server["breaker"]["tools"][0]["state"] == "open";
    let server = stage.until("sick", "the breaker of its tool is open", open);
    let breaker = &server["breaker"]["tools"][0];
    assert_eq!(breaker["tool"], "create_note", "{server:#}");
    let left = breaker["triesInMs"].as_u64().unwrap();
    assert!(left > 10_000 && left <= 60_000, "{server:#}");
    assert!(breaker["why"].as_str().unwrap().contains("2 calls in a row"), "{server:#}");
    client.result("c", "create_note", &json!({ "key": "c" }));
    let server = stage.until("sick", "one was rejected", |server| server["calls"]["tools"]["rejected"] == 1);
    assert_eq!(server["calls"]["tools"]["unknown"], 2, "{server:#}");
    stage.query_until(&["status"], |output| {
        output.stdout.contains("create_note open") && output.stdout.contains("2 calls in a row have failed")
    });
}

#[test]
fn rate_limit_and_sse_transport_are_shown() {
    let (stage, site) = (Stage::new(), Site::start(event_answers()));
    let mut client = stage.run(&["--name", "old", "--rate-limit", "30/m:5", &site.sse_url()]);
    client.initialize();
    let server = stage.until("old", "it is ready", |server| kind(server) == "ready");
    assert_eq!(server["transport"], "sse", "{server:#}");
    assert_eq!(server["limit"]["rate"], json!({ "burst": 5, "perSecond": 0.5 }));
}

#[test]
fn u08_local_url_is_named_by_its_address() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let url = site.url();
    let address = url.split('/').nth(2).unwrap();
    let mut client = stage.run(&[&url]);
    client.initialize();
    stage.until(address, "it is ready", |server| kind(server) == "ready");
    let output = stage.query_until(&["status", address], |output| !output.stdout.contains("does not answer"));
    assert!(output.code == Some(0) && output.stdout.starts_with(address), "{output:?}");
    let output = stage.query_until(&["reconnect", address], |output| !output.stdout.contains("does not answer"));
    assert!(output.stdout.starts_with(address), "{output:?}");
}

#[test]
fn u08_client_is_shown_before_and_after_its_handshake() {
    let stage = Stage::new();
    let mut client = stage.run(&["--name", "notes", "--startup", "wait", "--", MENDLINE, "demo-server"]);
    let server = stage.until("notes", "it runs", |_| true);
    assert_eq!(server["process"]["client"], Value::Null);
    assert_eq!(server["process"]["parent"]["pid"], std::process::id(), "{server:#}");
    let parent = server["process"]["parent"]["name"].as_str().unwrap();
    let row = |output: &str| output.lines().find(|line| line.starts_with("notes")).unwrap_or_default().to_owned();
    let output = stage.query_until(&["status"], |output| row(&output.stdout).contains(parent));
    assert!(output.stdout.lines().next().unwrap().contains("CLIENT"), "{output:?}");
    client.initialize();
    stage.query_until(&["status"], |output| row(&output.stdout).contains("notes   test "));
    let detail = stage.query_until(&["status", "notes"], |output| output.stdout.contains("client"));
    assert!(detail.stdout.contains(&format!("test 1, started by {parent}")), "{detail:?}");
}

#[test]
fn no_secret_is_shown() {
    const CANARY: &str = "canary-19fe";
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let url = format!("{}?token={CANARY}", site.url());
    let header = format!("Authorization: Bearer {CANARY}");
    let mut client = stage.run(&["--name", "shy", "--header", &header, &url]);
    client.initialize();
    site.add_fault(Rule::new("h26_500").tool("create_note"));
    client.result("a", "create_note", &json!({ "key": "k" }));
    stage.until("shy", "it has failed", |server| server["calls"]["tools"]["unknown"] == 1);
    for arguments in [&["status"][..], &["status", "shy"], &["status", "--json"]] {
        let output = stage.query_until(arguments, |output| !output.stdout.contains("does not answer"));
        assert!(output.stdout.contains("shy"), "{output:?}");
        assert!(!format!("{output:?}").contains(CANARY), "{output:?}");
    }
}

#[test]
fn u10_missing_command_leads_to_its_repair_and_not_to_reconnect() {
    let stage = Stage::new();
    let program = stage.folder().join("later");
    let _client = stage.run(&["--name", "ghost", "--", program.to_str().unwrap(), "demo-server"]);
    let server = stage.until("ghost", "it is parked", |server| kind(server) == "parked");
    assert_eq!(server["state"]["reason"], "command_not_found", "{server:#}");
    let step = "install the command and run `mendline reconnect ghost`, or correct the entry and restart the client";
    for line in [&["status"][..], &["status", "ghost"], &["reconnect", "ghost"]] {
        stage.query_until(line, |output| output.stdout.contains(step));
    }
    // The step helps.
    std::os::unix::fs::symlink(MENDLINE, &program).unwrap();
    let output = stage.control(&["reconnect", "ghost"]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn u10_isolated_server_leads_to_resume() {
    let stage = Stage::new();
    let _client = stage.bridge("notes");
    assert_eq!(stage.control(&["isolate", "notes"]).code, Some(0));
    for line in [&["status"][..], &["status", "notes"]] {
        stage.query_until(line, |output| output.stdout.contains("`mendline resume notes` puts it back into service"));
    }
}
