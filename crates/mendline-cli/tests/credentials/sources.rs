//! Credentials from a variable, a file and a command, and client credentials.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::client::{SOON, eventually, failure};
use crate::stage::{NOTES, Stage};

/// A stage with a valid token, which a login gave, and this `auth`.
fn stage_with_token(auth: impl Fn(&Stage) -> Value) -> (Stage, String) {
    let stage = Stage::new();
    stage.log_in();
    let token = stage.run(&["token", NOTES]);
    assert_eq!(token.code, Some(0), "{token:?}");
    stage.configure(&json!({ NOTES: { "url": stage.server.url(), "auth": auth(&stage) } }));
    (stage, token.stdout.trim().to_owned())
}

/// Writes a private file.
fn write(path: &std::path::Path, text: &str, mode: u32) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(&new, path).unwrap();
}

#[test]
fn credential_in_a_changed_file_is_used_without_restart() {
    let (stage, token) = stage_with_token(|_| json!({ "type": "file", "path": "../token" }));
    let path = stage.path().join("token");
    write(&path, "outdated-token\n", 0o600);
    let mut client = stage.client(&[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    client.answer("init");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    write(&path, &format!("{token}\n"), 0o600);
    let mut number = 0;
    eventually("calls work with the new token", SOON, || {
        number += 1;
        let key = format!("k{number}");
        let result = client.result(&key, "create_note", &json!({ "key": key }));
        result["content"][0]["text"] == format!("wrote {key}")
    });
}

#[test]
fn credential_of_a_command_is_read_again_after_a_refusal() {
    let (stage, token) = stage_with_token(
        |stage| json!({ "type": "command", "command": [stage.path().join("helper").to_str().unwrap()] }),
    );
    let (token_file, helper) = (stage.path().join("token"), stage.path().join("helper"));
    write(&helper, &format!("#!/bin/sh\ncat '{}'\n", token_file.display()), 0o755);
    write(&token_file, &format!("{token}\n"), 0o600);
    let mut client = stage.client(&[]);
    client.initialize();
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(result["content"][0]["text"], "wrote a", "{result}");
    // The token is renewed by another program, and the old one is refused.
    stage.authorization.expire_access_tokens();
    let url = stage.server.url();
    let called = stage.run(&["call", &url, "create_note", "--arg", "key=other"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let renewed = stage.run(&["token", &url]);
    assert_eq!(renewed.code, Some(0), "{renewed:?}");
    write(&token_file, &renewed.stdout, 0o600);
    let result = client.result("b", "create_note", &json!({ "key": "b" }));
    assert_eq!(result["content"][0]["text"], "wrote b", "{result}");
    assert_eq!(stage.executions("b"), 1);
}

#[test]
fn credential_in_a_variable_is_sent() {
    let (stage, token) = stage_with_token(|_| json!({ "type": "env", "variable": "NOTES_TOKEN" }));
    let mut command = stage.command(&["call", NOTES, "create_note", "--arg", "key=v"]);
    let output = command.env("NOTES_TOKEN", &token).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stage.executions("v"), 1);
    let missing = stage.run(&["call", NOTES, "create_note", "--arg", "key=w"]);
    assert_eq!(missing.code, Some(6), "{missing:?}");
    assert!(missing.stderr.contains("NOTES_TOKEN"), "{missing:?}");
}

#[test]
fn client_credentials_need_no_person() {
    let stage = Stage::new();
    let auth = json!({ "type": "clientCredentials", "clientId": "machine", "clientSecret": "secret-canary-machine" });
    stage.configure(&json!({ NOTES: { "url": stage.server.url(), "auth": auth } }));
    let mut client = stage.client(&[]);
    client.initialize();
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(result["content"][0]["text"], "wrote a", "{result}");
    stage.authorization.expire_access_tokens();
    let result = client.result("b", "create_note", &json!({ "key": "b" }));
    assert_eq!(result["content"][0]["text"], "wrote b", "{result}");
}

#[test]
fn auth_false_contacts_no_other_address() {
    let stage = Stage::new();
    stage.configure(&json!({ NOTES: { "url": stage.server.url(), "auth": false } }));
    let ended = stage.run(&["call", NOTES, "create_note", "--arg", "key=a"]);
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert!(stage.authorization.seen().is_empty(), "{:?}", stage.authorization.seen());
    let login = stage.run(&["login", NOTES]);
    assert!(login.code == Some(2) && login.stderr.contains("`auth`"), "{login:?}");
}
