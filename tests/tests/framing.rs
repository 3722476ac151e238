//! Valid but unusual framings over HTTP: the official clients read them all through Mendline, including those that they
//! cannot read directly.
//!
//! `cargo xtask peers` installs the peers and runs these tests.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod fault_runtime;
mod programs;

use std::ffi::OsString;

use fault_runtime::runtime;
use mendline_faults::{Answers, Era, Rule, Server, Settings};
use mendline_peers::live_client::LiveClient;
use mendline_peers::stage::Client::{Python2, TypeScript2};
use mendline_peers::stage::{Client, Stage, Transport};
use serde_json::{Value, json};

/// Returns the framings with their names.
fn framings() -> Vec<(&'static str, Answers, Rule)> {
    let json = |name, rule| (name, Answers::Json, rule);
    let events = |name, rule| (name, Answers::Events, rule);
    vec![
        json("indented-lf", Rule::new("pretty_json").value("lf")),
        json("indented-crlf", Rule::new("pretty_json").value("crlf")),
        json("indented-tab", Rule::new("pretty_json").value("tab")),
        events("data-lines", Rule::new("pretty_json").value("lf")),
        json("newline-after", Rule::new("newline_after")),
        json("byte-order-mark", Rule::new("bom_json")),
        json("gzip", Rule::new("content_coding")),
        events("gzip-events", Rule::new("content_coding")),
        json("http-1.0", Rule::new("http_1_0")),
        json("note-200", Rule::new("notification_answered").value(200)),
        json("note-204", Rule::new("notification_answered").value(204)),
        json("note-200-body", Rule::new("notification_answered").value(json!({ "status": 200, "body": "{}" }))),
    ]
}

/// Returns the texts of the calls of a client, through Mendline, with a server of this framing.
fn run_framing(stage: &Stage, name: &str, answers: Answers, rule: Rule) -> Result<Vec<String>, String> {
    let settings = Settings { era: Era::Legacy, answers, ..Settings::default() };
    let server = runtime().block_on(Server::start(settings)).unwrap();
    server.add(rule).unwrap();
    let folder = stage.folder(&format!("framing-{name}"))?;
    let steps = ["k", "l"].map(|key| json!({ "do": "call", "tool": "lookup", "arguments": { "key": key } }));
    let arguments = ["run", "--no-log-files", "--no-catalogue", "--startup", "wait"];
    let mut command: Vec<OsString> = vec![stage.programs.mendline.clone().into()];
    command.extend(arguments.map(OsString::from));
    command.push(server.url().into());
    let report = LiveClient::start(stage, folder, &steps, &command, &[])?.report()?;
    let steps = report["steps"].as_array().cloned().unwrap_or_default();
    let calls = steps.iter().filter(|step| step[0] == "call");
    calls.map(|step| text(if step[2].is_array() { &step[2][0] } else { &step[2] })).collect()
}

fn text(result: &Value) -> Result<String, String> {
    result["content"][0]["text"].as_str().map(str::to_owned).ok_or_else(|| result.to_string())
}

fn reads_every_framing(client: Client) {
    let (server, era) = (mendline_peers::stage::Server::Fixture, mendline_peers::stage::Era::Legacy);
    let stage = Stage { client, server, era, transport: Transport::Http, programs: programs::built() };
    let mut wrong = Vec::new();
    for (name, answers, rule) in framings() {
        let texts = run_framing(&stage, name, answers, rule);
        if texts.as_deref() != Ok(&["k is 42".to_owned(), "l is 42".to_owned()]) {
            wrong.push(format!("{name}: {texts:?}"));
        }
    }
    assert!(wrong.is_empty(), "through Mendline:\n{}", wrong.join("\n"));
}

#[test]
fn w01_r23_python_2_reads_every_framing_through_mendline() {
    reads_every_framing(Python2);
}

#[test]
fn w01_r23_typescript_2_reads_every_framing_through_mendline() {
    reads_every_framing(TypeScript2);
}
