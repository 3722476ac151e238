//! Credentials from a variable, a file and a command, and client credentials.

use mendline_faults::AuthorizationSettings;
use serde_json::json;

use crate::client::{SOON, eventually, failure};
use crate::stage::{NOTES, Stage, write_private};

/// A key for tests, which signs nothing else.
const KEY: &str = include_str!("../../../mendline-oauth/src/assertion/test-key.pem");

#[test]
fn credential_in_a_changed_file_is_used_without_restart() {
    let (stage, token) = Stage::with_token(|_| json!({ "type": "file", "path": "../token" }));
    let path = stage.path().join("token");
    write_private(&path, "outdated-token\n", 0o600);
    let mut client = stage.client(&[]);
    stage.begin(&mut client);
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    write_private(&path, &format!("{token}\n"), 0o600);
    stage.until_calls_work(&mut client);
}

#[test]
fn credential_of_a_command_is_read_again_after_a_refusal() {
    let (stage, token) = Stage::with_token(
        |stage| json!({ "type": "command", "command": [stage.path().join("helper").to_str().unwrap()] }),
    );
    let (token_file, helper) = (stage.path().join("token"), stage.path().join("helper"));
    write_private(&helper, &format!("#!/bin/sh\ncat '{}'\n", token_file.display()), 0o755);
    write_private(&token_file, &format!("{token}\n"), 0o600);
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
    write_private(&token_file, &renewed.stdout, 0o600);
    let result = client.result("b", "create_note", &json!({ "key": "b" }));
    assert_eq!(result["content"][0]["text"], "wrote b", "{result}");
    assert_eq!(stage.executions("b"), 1);
}

#[test]
fn credential_in_a_variable_is_sent() {
    let (stage, token) = Stage::with_token(|_| json!({ "type": "env", "variable": "NOTES_TOKEN" }));
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
    stage.configure_auth(&auth);
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
    stage.configure_auth(&json!(false));
    let ended = stage.run(&["call", NOTES, "create_note", "--arg", "key=a"]);
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert!(stage.authorization.seen().is_empty(), "{:?}", stage.authorization.seen());
    let login = stage.run(&["login", NOTES]);
    assert!(login.code == Some(2) && login.stderr.contains("`auth`"), "{login:?}");
}

#[test]
fn client_credentials_are_signed_with_a_key_in_a_file() {
    let stage = Stage::new();
    write_private(&stage.path().join("mendline/key.pem"), KEY, 0o600);
    let auth = json!({ "type": "clientCredentials", "clientId": "machine", "privateKey": "key.pem",
        "algorithm": "RS256", "keyId": "k1" });
    stage.configure_auth(&auth);
    let called = stage.run(&["call", NOTES, "create_note", "--arg", "key=a"]);
    assert_eq!((called.code, stage.executions("a")), (Some(0), 1), "{called:?}");
    assert_eq!(stage.authorization.counts().token_requests, 1);
    write_private(&stage.path().join("mendline/key.pem"), KEY, 0o644);
    let readable = stage.run(&["token", NOTES]);
    assert!(readable.code != Some(0) && readable.stderr.contains("chmod 600"), "{readable:?}");
    write_private(&stage.path().join("mendline/key.pem"), "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", 0o600);
    let refused = stage.run(&["token", NOTES]);
    assert!(refused.code == Some(6) && refused.stderr.contains("encrypted"), "{refused:?}");
}

#[test]
fn id_token_is_sent_if_it_is_the_bearer() {
    let stage = Stage::new();
    stage.configure_auth(&json!({ "type": "oauth", "bearer": "idToken", "scopes": ["openid"] }));
    stage.log_in();
    let token = stage.run(&["token", NOTES]);
    assert_eq!(token.stdout.trim().split('.').count(), 3, "an id token is a JWT");
    stage.configure_auth(&json!({ "type": "oauth", "scopes": ["openid"] }));
    let other = stage.run(&["token", NOTES]);
    assert!(other.code == Some(0) && other.stdout != token.stdout);
}

#[test]
fn login_as_another_person_is_refused_and_stores_nothing() {
    let stage =
        Stage::with(AuthorizationSettings { user: "eve@example.com".into(), ..AuthorizationSettings::default() });
    stage.configure_auth(&json!({ "type": "oauth", "account": "ada@example.com" }));
    let login = stage.start_login(&[NOTES]);
    let page = stage.browser.follow(0);
    let ended = crate::stage::finish(login);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for text in [&ended.stderr, &page] {
        assert!(text.contains("eve@example.com") && text.contains("ada@example.com"), "{text}");
    }
    assert_eq!(stage.run(&["token", NOTES]).code, Some(6));
    assert!(stage.authorization.counts().revocations >= 1, "the tokens are revoked, because they are not stored");
}

#[test]
fn changed_auth_takes_effect_without_a_restart() {
    let (stage, token) = Stage::with_token(|_| json!({ "type": "file", "path": "../absent" }));
    let mut client = stage.client(&[]);
    stage.begin(&mut client);
    let result = client.result("a", "create_note", &json!({ "key": "a" }));
    assert_eq!(failure(&result)["cause"], "needs_login", "{result}");
    write_private(&stage.path().join("token"), &token, 0o600);
    stage.configure_auth(&json!({ "type": "file", "path": "../token" }));
    stage.until_calls_work(&mut client);
    stage.configure_auth(&json!(false));
    eventually("the credential is not sent any more", SOON, || {
        let result = client.result("b", "lookup", &json!({ "key": "b" }));
        result["isError"] == true && failure(&result)["cause"] == "needs_login"
    });
    // The login of this home is still there.
    stage.configure_auth(&json!({ "type": "oauth" }));
    stage.until_calls_work(&mut client);
}

#[test]
fn commands_without_a_login_name_the_command_at_once() {
    let stage = Stage::new();
    for arguments in [&["tools", NOTES][..], &["call", NOTES, "lookup", "--arg", "key=a"]] {
        let begun = std::time::Instant::now();
        let ended = stage.run(arguments);
        assert_eq!(ended.code, Some(6), "{ended:?}");
        assert!(ended.stderr.contains("mendline login notes"), "{ended:?}");
        assert!(begun.elapsed() < SOON / 3, "{arguments:?}: {:?}", begun.elapsed());
    }
}

#[test]
fn command_of_a_credential_is_found_by_the_login_shell() {
    let stage = Stage::new();
    let tools = stage.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    write_private(&tools.join("give-token"), "#!/bin/sh\necho secret-canary-given\n", 0o700);
    write_private(&stage.path().join("shell"), "#!/bin/sh\nPATH=\"$HOME/tools:$PATH\"\neval \"$4\"\n", 0o700);
    stage.configure_auth(&json!({ "type": "command", "command": ["give-token"] }));
    let mut command = stage.command(&["token", NOTES]);
    let output = command.env("SHELL", stage.path().join("shell")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "secret-canary-given", "{output:?}");
}
