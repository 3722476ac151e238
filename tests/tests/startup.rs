//! Real clients with a server that is cached and has not started: the tools are available at once, and new ones are
//! announced. And a server that `npx` has to download first. `cargo xtask peers` installs the peers and runs these tests.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod programs;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mendline_peers::live_client::{LiveClient, pause};
use mendline_peers::processes::eventually;
use mendline_peers::stage::Client::{Python1, Python2, TypeScript1, TypeScript2};
use mendline_peers::stage::Era::Legacy;
use mendline_peers::stage::Server::Fixture;
use mendline_peers::stage::{Client, Stage, Transport};
use serde_json::{Value, json};

/// The deadline for anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Returns the command of Mendline with its demo server, which starts when a gate file exists and has one more tool
/// when another file exists. The SDKs pass on hardly any variables, so `env` sets them.
fn command(stage: &Stage, folder: &Path) -> Vec<OsString> {
    let word = |name: &str, file: &str| OsString::from(format!("{name}={}", folder.join(file).display()));
    let mendline = OsString::from(&stage.programs.mendline);
    let mut arguments = vec!["env".into(), word("MENDLINE_STATE_DIR", "state"), word("MENDLINE_DEMO_LEDGER", "ledger")];
    arguments.extend([mendline.clone(), "run".into(), "--".into(), mendline, "demo-server".into()]);
    arguments.extend(["--fault".into(), word("wait-for", "gate"), "--fault".into(), word("tool-if", "more")]);
    arguments
}

/// Returns the lists of the client's API, in order.
fn lists(report: &Value) -> Vec<String> {
    let steps = report["steps"].as_array().unwrap().iter();
    steps.filter(|step| step[0] == "list").map(|step| step[2].to_string()).collect()
}

fn served(folder: &Path) -> usize {
    let ledger = fs::read_to_string(folder.join("ledger")).unwrap_or_default();
    ledger.lines().filter(|line| line.starts_with("serves")).count()
}

fn has_its_tools_at_once(client: Client) {
    let stage =
        Stage { client, server: Fixture, era: Legacy, transport: Transport::Stdio, programs: programs::built() };
    let folder = stage.folder("startup").unwrap();
    for left in ["gate", "more", "ledger"] {
        let _ = fs::remove_file(folder.join(left));
    }
    let _ = fs::remove_dir_all(folder.join("state"));
    let list = || json!({ "do": "list", "what": "tools" });

    fs::write(folder.join("gate"), "").unwrap();
    let first = LiveClient::start(&stage, folder.clone(), &[list()], &command(&stage, &folder), &[]).unwrap();
    let known = lists(&first.report().unwrap()).remove(0);
    assert!(known.contains("create_note"), "{known}");
    let is_whole = |file: fs::DirEntry| file.path().extension().is_some_and(|extension| extension == "json");
    let is_kept = || fs::read_dir(folder.join("state/catalogue")).is_ok_and(|files| files.flatten().any(is_whole));
    assert!(eventually(SOON, is_kept), "nothing was kept of the server");

    fs::remove_file(folder.join("gate")).unwrap();
    fs::write(folder.join("more"), "").unwrap();
    let before = served(&folder);
    let changed = json!({ "do": "await", "method": "notifications/tools/list_changed", "count": 1 });
    let steps = [list(), pause("listed"), changed, list()];
    let mut second = LiveClient::start(&stage, folder.clone(), &steps, &command(&stage, &folder), &[]).unwrap();
    second.wait_for_pause("listed").unwrap();
    assert_eq!(served(&folder), before, "the client has its tools, and the server has not even started");
    fs::write(folder.join("gate"), "").unwrap();
    second.resume_from("listed").unwrap();
    let report = second.report().unwrap();
    let lists = lists(&report);
    assert_eq!(lists[0], known, "the same as the first time");
    assert!(lists[1].contains("forget"), "and what is new after it was announced: {report}");
}

#[test]
fn python_1_gets_cached_tools_and_change_notification() {
    has_its_tools_at_once(Python1);
}

#[test]
fn python_2_gets_cached_tools_and_change_notification() {
    has_its_tools_at_once(Python2);
}

#[test]
fn typescript_1_gets_cached_tools_and_change_notification() {
    has_its_tools_at_once(TypeScript1);
}

#[test]
fn typescript_2_gets_cached_tools_and_change_notification() {
    has_its_tools_at_once(TypeScript2);
}

/// A server without dependencies, so that its download takes a few seconds.
const DOWNLOADED: &str = "nx-mcp@0.25.0";

#[test]
fn npx_with_empty_cache_gives_the_handshake_of_the_server() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    fs::create_dir(path("workspace")).unwrap();
    let mut command = Command::new(programs::built().mendline);
    command.args(["run", "--", "npx", "-y", DOWNLOADED]).arg(path("workspace")).current_dir(path("workspace"));
    command.env("MENDLINE_STATE_DIR", path("state")).env("npm_config_cache", path("cache"));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).unwrap();
    let mut answer = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    drop(stdin);
    process.wait().unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    let result = &answer["result"];
    assert_eq!(result["serverInfo"]["name"], "Nx MCP", "a provisional answer has the configured name: {answer}");
    assert!(path("cache/_npx").is_dir(), "the package was downloaded into the empty cache");
}
