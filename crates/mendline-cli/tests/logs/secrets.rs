//! Secrets must not appear in log files or on a terminal, whether they come from a server or a header.

use std::process::Stdio;

use mendline_faults::Rule;
use serde_json::json;

use crate::client::{Client, MENDLINE, eventually};
use crate::site::{Site, json_answers};
use crate::stage::{LATER, Stage, end};

#[test]
fn z106_secrets_printed_by_server_are_in_no_log() {
    let stage = Stage::new();
    // The server prints every secret that it got, and one that it made up.
    let script = format!(
        "echo \"env $NOTES_API_KEY $DATABASE_URL arguments $*\" >&2; \
         echo 'Authorization: Bearer canary-bearer-0123456789' >&2; \
         echo 'GET https://me:canary-password@example.com/?api_key=canary-query' >&2; \
         echo 'using ghp_canary0123456789abcdefghij and done' >&2; \
         exec '{MENDLINE}' demo-server"
    );
    let mut command = stage.command(&["run", "--name", "notes", "--record-wire", "--log-file-level", "debug", "--"]);
    command.args(["sh", "-c", &script, "sh", "--token", "canary-argument"]);
    command.env("NOTES_API_KEY", "canary-key").env("DATABASE_URL", "postgres://me:canary-database@db/x");
    let mut client = Client::start(command.stdin(Stdio::piped()));
    client.read_log();
    client.initialize();
    client.result("a", "lookup", &json!({ "key": "k canary-key", "password": "canary-typed" }));
    eventually("stderr is read", LATER, || client.log().contains("and done"));
    let log = client.log();
    end(client);
    let files: String = stage.files().into_iter().map(|(name, text)| name + &text).collect();
    assert!(files.contains("and done") && files.contains("\"kind\":\"wire\""), "{files}");
    for (place, text) in [("files", &files), ("stderr", &log)] {
        assert!(!text.contains("canary"), "{place}:\n{text}");
        assert!(text.contains("‹secret›"), "{place}:\n{text}");
    }
}

#[test]
fn i12_headers_and_secrets_in_url_are_in_no_file() {
    let stage = Stage::new();
    let site = Site::start(json_answers());
    let url = format!("{}?key=canary-query", site.url());
    let mut command = stage.command(&["run", "--name", "far", "--record-wire", "--log-file-level", "debug"]);
    command.args(["--header", "Authorization: Bearer ${TOKEN}", "--header", "X-Team: canary-team", &url]);
    command.env("TOKEN", "canary-token");
    let mut client = Client::start(command.stdin(Stdio::piped()));
    client.read_log();
    client.initialize();
    site.add_fault(Rule::new("h28_503_retry_after").nth(1));
    client.result("a", "lookup", &json!({ "key": "canary-token canary-team" }));
    end(client);
    let files: String = stage.files().into_iter().map(|(name, text)| name + &text).collect();
    assert!(files.contains("503") && files.contains("fromServer"), "{files}");
    assert!(!files.contains("canary"), "{files}");
}
