//! Faults of credentials with real processes: the rows A of `PROMISE.md`.

use std::collections::BTreeMap;
use std::fs;

use mendline_faults::{Answers, AuthorizationSettings, Era, Rule, Settings};
use serde_json::json;

use crate::client::{SOON, eventually, failure};
use crate::stage::{NOTES, Stage, write_private};

#[test]
fn a74_response_goes_on_after_its_token_expired() {
    let settings = AuthorizationSettings {
        access_seconds: 2,
        // Mendline does not expect the end of the token, so the resumption is refused.
        expires_in: Some(3600),
        streams_end_at_expiry: true,
        ..AuthorizationSettings::default()
    };
    let kind = Settings { era: Era::Legacy, answers: Answers::Events, ..Settings::default() };
    let stage = Stage::of(kind, settings);
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    let result = client.result("a", "slow", &json!({ "key": "a", "steps": 60, "stepMs": 100 }));
    assert_eq!(result["content"][0]["text"], "a is done", "{result}\n{}", client.log());
    assert_eq!(stage.executions("a"), 1);
    let counts = stage.authorization.counts();
    assert!(counts.refreshes >= 1 && counts.logins == 1 && counts.reuses == 0, "{counts:?}");
}

#[test]
fn a77_fresh_token_that_is_refused_needs_login_without_a_loop() {
    let stage = Stage::new();
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    stage.server.add(Rule::new("a73_token_expired_401").verb("POST")).unwrap();
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("`mendline login notes`"), "{result}");
    let struck = || stage.server.oracle().counts().struck_by("a73_token_expired_401");
    // A probe finds that the server refuses everything; then nothing more is sent for calls.
    eventually("calls are not sent any more", SOON, || {
        let before = struck();
        client.result("b", "create_note", &json!({ "key": "b" }));
        struck() == before
    });
    for number in 0..50 {
        let result = client.result(&format!("c{number}"), "create_note", &json!({ "key": "c" }));
        assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    }
    let counts = stage.authorization.counts();
    assert!(counts.refreshes <= 2 && struck() < 20, "{counts:?}, {} refused", struck());
    assert_eq!((stage.executions("a"), stage.executions("c")), (0, 0));
    stage.server.clear();
    // `reconnect` does not wait for the next probe.
    assert_eq!(stage.run(&["reconnect", NOTES]).code, Some(0));
    stage.until_calls_work(&mut client);
}

#[test]
fn a78_missing_permissions_end_only_their_call() {
    let tool_scopes = BTreeMap::from([("create_note".to_owned(), "notes:write".to_owned())]);
    let scopes = ["mcp", "offline_access", "notes:write"].map(str::to_owned).to_vec();
    let stage = Stage::with(AuthorizationSettings { tool_scopes, scopes, ..AuthorizationSettings::default() });
    stage.log_in();
    let mut client = stage.client(&[]);
    client.initialize();
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    assert!(result.to_string().contains("notes:write"), "the scope is named: {result}");
    let result = client.result("b", "lookup", &json!({ "key": "b" }));
    assert_eq!(result["content"][0]["text"], "b is 42", "{result}");
    assert_eq!((stage.executions("a"), stage.executions("b")), (0, 1));
    // A login that asks for the scope makes the call work.
    stage.log_in();
    eventually("the call has its permission", SOON, || {
        let result = client.result("c", "create_note", &json!({ "key": "c" }));
        result["content"][0]["text"] == "wrote c"
    });
}

#[test]
fn a80_command_that_hangs_delays_no_call_beyond_its_time() {
    let (stage, token) = Stage::with_token(|stage| {
        let helper = stage.path().join("helper");
        json!({ "type": "command", "command": [helper.to_str().unwrap()], "timeout": "1s" })
    });
    let (hang, helper) = (stage.path().join("hang"), stage.path().join("helper"));
    let script = format!("#!/bin/sh\n[ -e '{}' ] && exec sleep 600\necho '{token}'\n", hang.display());
    write_private(&helper, &script, 0o755);
    let mut client = stage.client(&["--recovery-timeout", "3s"]);
    client.initialize();
    fs::write(&hang, "").unwrap();
    stage.server.add(Rule::new("a73_token_expired_401").nth(1)).unwrap();
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!((&failure(&result)["cause"], &failure(&result)["retryable"]), (&json!("unavailable"), &json!(true)));
    assert!(result.to_string().contains("did not end within 1"), "{result}");
    assert_eq!(stage.executions("a"), 0);
    // The helper works again, and gives the token that the server accepts by now.
    fs::remove_file(&hang).unwrap();
    stage.until_calls_work(&mut client);
}

#[test]
fn z109_metadata_at_a_link_local_address_is_refused() {
    use mendline_faults::MetadataFault;
    for fault in
        [MetadataFault::LinkLocal, MetadataFault::RedirectToLinkLocal, MetadataFault::File, MetadataFault::Loop]
    {
        let stage =
            Stage::with(AuthorizationSettings { metadata_fault: Some(fault), ..AuthorizationSettings::default() });
        let ended = crate::stage::finish(stage.start_login(&[NOTES]));
        assert_eq!(ended.code, Some(1), "{fault:?}: {ended:?}");
        assert!(ended.stderr.contains("cannot log in to notes"), "{fault:?}: {ended:?}");
        assert!(stage.browser.opened().is_empty(), "{fault:?}");
        // A running Mendline goes on with the same words.
        let mut client = stage.client(&[]);
        stage.begin(&mut client);
        let result = client.result("a", "lookup", &json!({ "key": "a" }));
        assert_eq!(failure(&result)["cause"], "needs_login", "{fault:?}: {result}");
    }
}

#[test]
fn z110_nested_json_of_a_provider_is_refused() {
    let bomb = format!("{{\"access_token\":{}", "[".repeat(200_000));
    let long = format!("{{\"access_token\":\"{}\"}}", "x".repeat(8 << 20));
    for body in [bomb, long] {
        let stage = Stage::new();
        let endpoint = crate::canned::answering(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ));
        let auth = json!({ "type": "clientCredentials", "clientId": "machine", "clientSecret": "s",
            "tokenEndpoint": format!("http://{endpoint}/token") });
        stage.configure(&json!({ NOTES: { "url": stage.server.url(), "auth": auth } }));
        let token = stage.run(&["token", NOTES]);
        assert_eq!(token.code, Some(1), "{token:?}");
        assert!(!token.stderr.contains("xxxx") && token.stderr.len() < 2000, "{token:?}");
        let mut client = stage.client(&["--recovery-timeout", "1s"]);
        stage.begin(&mut client);
        let result = client.result("a", "lookup", &json!({ "key": "a" }));
        assert!(failure(&result)["cause"].is_string(), "{result}");
    }
}

#[test]
fn z107_line_breaks_in_credentials_and_names_add_no_header() {
    let stage = Stage::new();
    let token = stage.path().join("token");
    write_private(&token, "abc\r\nX-Forged: 1\r\n", 0o600);
    let auth = json!({ "type": "file", "path": "../token" });
    stage.configure(&json!({ NOTES: { "url": stage.server.url(), "auth": auth } }));
    let ended = stage.run(&["call", NOTES, "lookup", "--arg", "key=a"]);
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert!(!ended.stderr.contains("X-Forged") && !ended.stderr.contains("abc"), "{ended:?}");
    // A name with line breaks goes into a header of modern requests.
    let seen = crate::canned::recording("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stage.configure(&json!({ NOTES: { "url": format!("http://{}/mcp", seen.address()), "auth": false } }));
    let mut client = stage.client(&["--recovery-timeout", "1s"]);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": "lookup\r\nX-Forged: 1\r\n\r\nGET / HTTP/1.1", "arguments": {}, "_meta": meta });
    client.request("a", "tools/call", &params);
    client.answer("a");
    let requests = seen.recorded();
    assert!(requests.to_lowercase().contains("mcp-name:"), "{requests}");
    let heads: String = requests.split("\r\n\r\n").filter(|part| part.contains("HTTP/1.1\r\n")).collect();
    assert!(!heads.contains("X-Forged: 1\r\n") && !heads.contains("GET / HTTP/1.1"), "{requests}");
}
