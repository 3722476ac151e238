//! Other users of the same machine.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use serde_json::json;

use super::gateway::Gateway;
use super::request;

/// A user that exists nowhere and owns nothing.
const OTHER: u32 = 61_234;

/// Makes a request as another user, with a shell that needs no file of this user. Returns the response.
fn post_as_other(gateway: &Gateway, headers: &str) -> String {
    let body = request(1, "tools/list", &json!({}));
    let script = r#"exec 3<>/dev/tcp/127.0.0.1/$PORT; printf '%s' "$TEXT" >&3; cat <&3"#;
    let text = format!(
        "POST /mcp/demo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let output = Command::new("/bin/bash")
        .args(["-c", script])
        .env("PORT", gateway.address.port().to_string())
        .env("TEXT", text)
        .current_dir("/")
        .uid(OTHER)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn other_user_of_this_machine_needs_a_token() {
    if !rustix::process::geteuid().is_root() {
        return; // Only the administrator can become another user.
    }
    let gateway = Gateway::start(&[]);
    let refused = post_as_other(&gateway, "");
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert!(refused.contains("uid 61234") && refused.contains("tokens"), "{refused}");
    let gateway = Gateway::configured(r#""access": { "tokens": ["ann-0123456789abcdef"] }"#, "", &[]);
    let served = post_as_other(&gateway, "Authorization: Bearer ann-0123456789abcdef\r\n");
    assert!(served.starts_with("HTTP/1.1 200 "), "{served}");
}
