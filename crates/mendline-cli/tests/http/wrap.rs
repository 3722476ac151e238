//! Wrapped entries of servers at a URL, started like their clients start them.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, MENDLINE, SOON, eventually};
use crate::recording_proxy::RecordingProxy;
use crate::site::{Site, json_answers};

const CANARY: &str = "canary-5d01e2";

/// Wraps the only server of a file and returns the new entry.
fn wrapped(folder: &TempDir, entry: &Value) -> Value {
    let path = folder.path().join("mcp.json");
    fs::write(&path, json!({ "mcpServers": { "site": entry } }).to_string()).unwrap();
    let printed = Command::new(MENDLINE)
        .args(["wrap", "--yes", "--binary", MENDLINE, "--file", path.to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&printed.stdout);
    assert!(printed.status.success() && !shown.contains(CANARY), "{shown}");
    let file: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    file["mcpServers"]["site"].clone()
}

fn started(entry: &Value) -> Client {
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    for (name, value) in entry["env"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    Client::start(command.stdin(Stdio::piped()))
}

/// Performs a handshake through the wrapped entry and returns all bytes that the server received.
fn recorded(proxy: &RecordingProxy, entry: &Value) -> String {
    assert!(!entry["args"].to_string().contains(CANARY), "a secret among the arguments: {entry}");
    let mut client = started(entry);
    client.initialize();
    let lines = command_lines(client.process.id());
    assert!(lines[0].contains("--name"), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains(CANARY)), "{lines:?}");
    proxy.recorded()
}

/// Returns the command lines of a process and of its descendants.
fn command_lines(root: u32) -> Vec<String> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all =
        || fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut family = vec![root];
    let mut at = 0;
    while let Some(pid) = family.get(at).copied() {
        family.extend(all().filter(|child| parent(*child) == Some(pid)));
        at += 1;
    }
    family.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()).collect()
}

#[test]
fn i12_headers_of_wrapped_entry_are_on_no_command_line() {
    let site = Site::start(json_answers());
    let proxy = RecordingProxy::before(site.address());
    let folder = tempfile::tempdir().unwrap();
    let headers = json!({ "Authorization": format!("Bearer {CANARY}"), "X-Team": "blue" });
    let entry = wrapped(&folder, &json!({ "type": "http", "url": proxy.url(), "headers": headers }));
    let recorded = recorded(&proxy, &entry).to_lowercase();
    assert!(
        recorded.contains(&format!("authorization: bearer {CANARY}\r\n")) && recorded.contains("x-team: blue\r\n"),
        "{recorded}"
    );
}

#[test]
fn i12_key_in_url_is_on_no_command_line() {
    let site = Site::start(json_answers());
    let proxy = RecordingProxy::before(site.address());
    let folder = tempfile::tempdir().unwrap();
    let entry = wrapped(&folder, &json!({ "url": format!("{}?key={CANARY}", proxy.url()) }));
    let recorded = recorded(&proxy, &entry);
    assert!(recorded.contains(&format!("?key={CANARY} HTTP/1.1")), "{recorded}");
}

#[test]
fn s03_key_in_url_path_is_on_no_command_line() {
    let site = Site::start(json_answers());
    let folder = tempfile::tempdir().unwrap();
    for is_bridge in [false, true] {
        let proxy = RecordingProxy::before(site.address());
        let url = format!("{}/s/{CANARY}/mcp", proxy.url());
        let entry = match is_bridge {
            false => json!({ "type": "http", "url": url }),
            true => json!({ "command": "npx", "args": ["mcp-remote", url, "--transport", "http-only"] }),
        };
        let entry = wrapped(&folder, &entry);
        let mut client = started(&entry);
        let about = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        client.request("1", "initialize", &about);
        // The server has no such path, but it received the request.
        eventually("the request arrives", SOON, || proxy.recorded().contains(&format!("/s/{CANARY}/mcp HTTP/1.1")));
        let lines = command_lines(client.process.id());
        assert!(lines[0].contains("--url-env") && lines.iter().all(|line| !line.contains(CANARY)), "{lines:?}");
    }
}

#[test]
fn i12_replaced_bridge_keeps_its_headers() {
    let site = Site::start(json_answers());
    let proxy = RecordingProxy::before(site.address());
    let folder = tempfile::tempdir().unwrap();
    let secret = format!("Authorization: Bearer {CANARY}");
    let words = json!(["-y", "mcp-remote@latest", proxy.url(), "--header", secret, "--header", "X-Team:${TEAM}"]);
    let entry = wrapped(&folder, &json!({ "command": "npx", "args": words, "env": { "TEAM": "blue" } }));
    let recorded = recorded(&proxy, &entry).to_lowercase();
    assert!(
        recorded.contains(&format!("authorization: bearer {CANARY}\r\n")) && recorded.contains("x-team: blue\r\n"),
        "{recorded}"
    );
}
