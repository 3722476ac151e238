//! Tests of the binary.

use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::client::{Client, TIMEOUT};
use crate::control::send;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mendline-faults"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Starts the binary and reads the addresses.
async fn start(args: &[&str]) -> (Child, Value) {
    let mut child = command(args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap().unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

/// Closes its stdin and waits for its end.
async fn end(mut child: Child) -> ExitStatus {
    drop(child.stdin.take());
    timeout(TIMEOUT, child.wait()).await.unwrap().unwrap()
}

fn address(url: &Value) -> std::net::SocketAddr {
    let url = url.as_str().unwrap().trim_start_matches("http://");
    url.split('/').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn server_and_proxy_processes_end_with_their_stdin() {
    let (server, at) = start(&["server", "answers=json", "era=modern"]).await;
    let behind = address(&at["url"]).to_string();
    let (proxy, front) = start(&["proxy", &format!("to={behind}")]).await;
    let client = Client::modern(address(&front["address"]));
    assert_eq!(client.call("create_note", "k").await.tool_text(), "wrote k");
    let rule = json!({ "fault": "h26_500" });
    assert_eq!(send(address(&at["control"]), "POST", "rules", &rule).await.0, 200);
    assert_eq!(client.call("create_note", "k").await.status, 500);
    let (_, counts) = send(address(&at["control"]), "GET", "counts", &Value::Null).await;
    assert_eq!(counts["executions"]["k"], 2);
    let (_, counts) = send(address(&front["control"]), "GET", "counts", &Value::Null).await;
    assert_eq!(counts["accepted"], 2);
    assert!(end(proxy).await.success() && end(server).await.success());
}

#[tokio::test]
async fn browser_follows_the_redirects_of_a_login() {
    let (server, at) = start(&["oauth", "redirects=exact"]).await;
    let folder = std::env::temp_dir().join(format!("mendline-browse-{}", std::process::id()));
    let log = format!("log={}", folder.display());
    let target = format!("{}/.well-known/openid-configuration", at["issuer"].as_str().unwrap());
    // The client `machine` accepts every redirect; here it leads to the metadata.
    let query = format!("response_type=code&client_id=machine&redirect_uri={target}&code_challenge=c");
    let url = format!("{}/authorize?{query}&code_challenge_method=S256", at["issuer"].as_str().unwrap());
    let output =
        timeout(TIMEOUT, command(&["browse", &format!("address={url}"), &log]).output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(&folder).unwrap(), "begun\nended 200\n");
    std::fs::remove_file(&folder).unwrap();
    let (_, counts) = send(address(&at["control"]), "GET", "auth/counts", &Value::Null).await;
    assert_eq!((&counts["authorizations"], &counts["metadata"]), (&json!(1), &json!(1)));
    assert_eq!(send(address(&at["control"]), "POST", "auth/settings", &json!({ "consent": "page" })).await.0, 200);
    assert_eq!(send(address(&at["control"]), "POST", "auth/settings", &json!({ "consent": "maybe" })).await.0, 400);
    let fail = json!({ "fault": { "status": { "status": 503, "retryAfter": 1 } }, "times": 2 });
    assert_eq!(send(address(&at["control"]), "POST", "auth/fail", &fail).await.0, 200);
    assert!(end(server).await.success());
}

#[tokio::test]
async fn invalid_command_prints_an_error() {
    for args in
        [&["server", "ear=modern"][..], &["server", "modern"], &["proxy"], &["proxy", "to=x"], &["unknown"], &[]]
    {
        let output = timeout(TIMEOUT, command(args).output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stderr.starts_with(b"mendline-faults: ") && output.stdout.is_empty(), "{args:?}");
    }
}

#[tokio::test]
async fn list_names_all_faults_and_toxics() {
    let output = timeout(TIMEOUT, command(&["list"]).output()).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), mendline_faults::fault::ALL.len() + mendline_faults::toxic::ALL.len());
}
