//! Changes of the rules of access while the gateway runs.

use std::process::{Command, Output};

use serde_json::json;

use super::gateway::{Gateway, MENDLINE, eventually};
use super::{call, initialize, request};

const ANN: (&str, &str) = ("Authorization", "Bearer ann-0123456789abcdef");
const CI: (&str, &str) = ("Authorization", "Bearer ci-0123456789abcdef");

fn list() -> String {
    request(1, "tools/list", &json!({}))
}

fn text(access: &str) -> String {
    let entry = format!(r#""command": {MENDLINE:?}, "args": ["demo-server"]"#);
    format!(
        r#"{{ "mendline": {{ "access": {{ {access} }} }}, "mcpServers": {{ "demo": {{ {entry} }}, "other": {{ {entry} }} }} }}"#
    )
}

fn start(access: &str) -> Gateway {
    Gateway::configured(&format!(r#""access": {{ {access} }}"#), "", &[])
}

/// Runs a command about the stored tokens of a gateway.
fn tokens(gateway: &Gateway, arguments: &[&str]) -> Output {
    Command::new(MENDLINE).arg("serve").args(arguments).envs(gateway.environment()).output().unwrap()
}

#[test]
fn removed_token_ends_its_sessions_at_once() {
    let both = r#""tokens": [{ "name": "ann", "token": "ann-0123456789abcdef" },
        { "name": "ci", "token": "ci-0123456789abcdef" }]"#;
    let gateway = start(both);
    let session = |token| {
        let opened = gateway.post(&[token], &initialize("2025-11-25"));
        opened.header("mcp-session-id").unwrap().to_owned()
    };
    let (of_ann, of_ci) = (session(ANN), session(CI));
    let mut stream = gateway.send("GET", "/mcp/demo", &[CI, ("Mcp-Session-Id", &of_ci)], "");
    assert_eq!(stream.status, 200);
    let mut slow = gateway.send(
        "POST",
        "/mcp/demo",
        &[CI, ("Mcp-Session-Id", &of_ci)],
        &call(7, "lookup", &json!({ "key": "a", "delayMs": 20_000 })),
    );
    assert_eq!(slow.header("content-type"), Some("text/event-stream"));
    gateway.write_text(&text(r#""tokens": [{ "name": "ann", "token": "ann-0123456789abcdef" }]"#));
    eventually("the token is refused", || gateway.post(&[CI, ("Mcp-Session-Id", &of_ci)], &list()).status == 401);
    while stream.event().is_some() {}
    while let Some(event) = slow.event() {
        assert!(!event.data.contains("result"), "{event:?}");
    }
    assert_eq!(gateway.post(&[ANN, ("Mcp-Session-Id", &of_ann)], &list()).status, 200, "the other one goes on");
}

#[test]
fn hosts_origins_and_rights_change_with_the_file() {
    let gateway = start(r#""tokens": ["ann-0123456789abcdef"]"#);
    let status = |headers: &[(&str, &str)]| gateway.post(&[&[ANN], headers].concat(), &list()).status;
    let (host, origin) = (("Host", "mcp.example.com"), ("Origin", "http://page.test"));
    assert_eq!((status(&[host]), status(&[origin])), (421, 403));
    gateway.write_text(&text(
        r#""tokens": [{ "token": "ann-0123456789abcdef", "servers": ["other"] }], "hosts": ["mcp.example.com"],
        "origins": ["http://page.test"]"#,
    ));
    gateway.signal(rustix::process::Signal::HUP);
    eventually("the server is closed to the token", || status(&[]) == 403);
    let other =
        |headers: &[(&str, &str)]| gateway.send("POST", "/mcp/other", &[&[ANN], headers].concat(), &list()).status;
    assert_eq!((other(&[host]), other(&[origin])), (200, 200));
}

#[test]
fn bad_file_keeps_the_old_rules() {
    let gateway = start(r#""tokens": ["ann-0123456789abcdef"]"#);
    gateway.write_text(&text(r#""tokens": ["short"]"#));
    gateway.wait_for_log("the old configuration stays");
    assert_eq!(gateway.post(&[ANN], &list()).status, 200);
    assert_eq!(gateway.post(&[], &list()).status, 401);
}

#[test]
fn stored_tokens_are_added_listed_and_revoked_while_a_gateway_runs() {
    let gateway = start(r#""tokens": ["ann-0123456789abcdef"]"#);
    let port = gateway.address.to_string();
    let made = tokens(
        &gateway,
        &[
            "--listen",
            &port,
            "--new-token",
            "bob",
            "--token-servers",
            "demo",
            "--token-tools",
            "look*",
            "--token-expires",
            "30d",
            "--",
            "true",
        ],
    );
    let words = String::from_utf8(made.stderr).unwrap();
    let token = words.lines().find_map(|line| line.trim().starts_with("mdl_").then(|| line.trim().to_owned())).unwrap();
    let bearer = format!("Bearer {token}");
    let status = |path: &str| gateway.send("POST", path, &[("Authorization", &bearer)], &list()).status;
    eventually("the token is known", || status("/mcp/demo") == 200);
    assert_eq!(status("/mcp/other"), 403);
    let listed = gateway.post(&[("Authorization", &bearer)], &list()).text();
    assert!(listed.contains("lookup") && listed.matches("\"inputSchema\"").count() == 1, "{listed}");
    let printed = String::from_utf8(tokens(&gateway, &["--list-tokens"]).stdout).unwrap();
    assert!(printed.contains("bob  servers: demo  tools: look*  expires 20"), "{printed}");
    assert!(!printed.contains(&token));
    assert_eq!(tokens(&gateway, &["--revoke-token", "unknown"]).status.code(), Some(3));
    assert_eq!(tokens(&gateway, &["--revoke-token", "bob"]).status.code(), Some(0));
    eventually("the token is refused", || status("/mcp/demo") == 401);
}

#[test]
fn token_with_the_name_of_requests_without_one_is_not_made() {
    let gateway = start("");
    let refused = tokens(&gateway, &["--new-token", "local", "--", "true"]);
    assert_eq!(refused.status.code(), Some(2));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("requests without a token") && !words.contains("mdl_"), "{words}");
}
