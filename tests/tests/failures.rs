//! Failures of Mendline as the official clients read them, without validation errors.
//!
//! Every failure text is read from a server that serves them all, in both eras, as the result of a tool and as the
//! error of another method. Some failures are provoked behind a real `mendline run`. `cargo xtask peers` installs the
//! peers and runs these tests.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod fault_runtime;
mod programs;

use std::ffi::OsString;

use fault_runtime::runtime;
use mendline_core::words::{FAILURE_KEY, Failure};
use mendline_faults::{Answers, Rule, Settings};
use mendline_peers::failures::{RESOURCE, TOOLS, all, response};
use mendline_peers::live_client::{LiveClient, pause};
use mendline_peers::stage::Client::{Python1, Python2, Rust, TypeScript1, TypeScript2};
use mendline_peers::stage::Era::{Legacy, Modern};
use mendline_peers::stage::{Client, Era, Server, Stage, Transport};
use mendline_wire::{Id, Method};
use serde_json::{Value, json};

fn stage(client: Client, era: Era) -> Stage {
    Stage { client, server: Server::Fixture, era, transport: Transport::Stdio, programs: programs::built() }
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "do": "call", "tool": tool, "arguments": arguments })
}

/// Returns the results of the client's API for each step of this kind. Most clients add the progress.
fn given(report: &Value, kind: &str) -> Vec<Value> {
    let steps = report["steps"].as_array().unwrap().iter().filter(|step| step[0] == kind);
    steps.map(|step| if step[2].is_array() { step[2][0].clone() } else { step[2].clone() }).collect()
}

/// Returns the failure as JSON.
fn sent(failure: &Failure, method: Method) -> Value {
    serde_json::from_slice(&response(failure, &Id::number(1), method)).unwrap()
}

/// Compares an error. Clients of the first TypeScript major put the code before the message.
fn has_error(given: &Value, code: &Value, message: &Value, data: &Value) {
    let error = &given["error"];
    assert_eq!(&error["code"], code, "{given}");
    assert!(error["message"].as_str().unwrap().ends_with(message.as_str().unwrap()), "{given}");
    assert_eq!(&error["data"], data, "{given}");
}

fn reads_every_failure(client: Client, era: Era) {
    let stage = stage(client, era);
    let failures = all(era == Modern);
    let mut steps = vec![json!({ "do": "list", "what": "tools" })];
    for number in 0..failures.len() {
        steps.extend(TOOLS.map(|tool| call(tool, &json!({ "number": number }))));
        steps.push(json!({ "do": "read", "uri": format!("{RESOURCE}{number}"), "fails": true }));
    }
    let folder = stage.folder("failures").unwrap();
    let server = [OsString::from(env!("CARGO_BIN_EXE_failures"))];
    let report = LiveClient::start(&stage, folder, &steps, &server, &[]).unwrap().report().unwrap();
    let (results, errors) = (given(&report, "call"), given(&report, "read"));
    assert_eq!((results.len(), errors.len()), (failures.len() * TOOLS.len(), failures.len()));
    for (failure, (results, error)) in failures.iter().zip(results.chunks(TOOLS.len()).zip(&errors)) {
        let written = &sent(failure, Method::ToolsCall)["result"];
        for result in results {
            assert_eq!(result["isError"], true, "{result}");
            assert_eq!(result["content"][0]["text"], failure.text(), "{result}");
            // Some clients omit members that are null.
            let (read, written) = (&result["_meta"][FAILURE_KEY], &written["_meta"][FAILURE_KEY]);
            for fact in ["cause", "outcome", "retryable", "attempts", "retryAfterMs", "upstream", "call", "detail"] {
                assert_eq!(read[fact], written[fact], "{fact}: {result}");
            }
        }
        let written = &sent(failure, Method::ResourcesRead)["error"];
        has_error(error, &written["code"], &written["message"], &written["data"]);
    }
}

#[test]
fn w03_python_1_reads_every_failure() {
    reads_every_failure(Python1, Legacy);
}

#[test]
fn w03_python_2_reads_every_failure() {
    reads_every_failure(Python2, Legacy);
}

#[test]
fn w03_python_2_reads_every_modern_failure() {
    reads_every_failure(Python2, Modern);
}

#[test]
fn w03_typescript_1_reads_every_failure() {
    reads_every_failure(TypeScript1, Legacy);
}

#[test]
fn w03_typescript_2_reads_every_failure() {
    reads_every_failure(TypeScript2, Legacy);
}

#[test]
fn w03_typescript_2_reads_every_modern_failure() {
    reads_every_failure(TypeScript2, Modern);
}

#[test]
fn w03_rmcp_reads_every_failure() {
    reads_every_failure(Rust, Legacy);
}

#[test]
fn w03_rmcp_reads_every_modern_failure() {
    reads_every_failure(Rust, Modern);
}

/// Provokes failures behind `mendline run` in one conversation.
fn reads_failures_that_happen(client: Client, era: Era) {
    let stage = stage(client, era);
    let eras = if era == Modern { mendline_faults::Era::Modern } else { mendline_faults::Era::Legacy };
    let settings = Settings { era: eras, answers: Answers::Json, ..Settings::default() };
    let site = runtime().block_on(mendline_faults::Server::start(settings)).unwrap();
    let note = |key: &str| call("create_note", &json!({ "key": key }));
    let steps = [
        json!({ "do": "list", "what": "tools" }),
        pause("before"),
        note("cut"),
        note("refused"),
        call("slow", &json!({ "key": "slow", "delayMs": 600_000 })),
        pause("away"),
        note("away"),
        json!({ "do": "read", "uri": "memo://one", "fails": true }),
    ];
    let mut command = vec![OsString::from(&stage.programs.mendline)];
    let options = ["--no-log-files", "--no-catalogue", "--name", "notes", "--recovery-timeout", "1s"];
    command.extend(["run"].iter().chain(&options).chain(&["--tool-timeout", "slow=1s"]).map(OsString::from));
    command.push(site.url().into());
    let folder = stage.folder("failures-that-happen").unwrap();
    let mut live = LiveClient::start(&stage, folder, &steps, &command, &[]).unwrap();
    live.wait_for_pause("before").unwrap();
    // A rule counts only requests that no earlier rule has matched.
    site.add(Rule::new("t13_reset_before_headers").tool("create_note").nth(1)).unwrap();
    site.add(Rule::new("a73_token_expired_401").tool("create_note").nth(1)).unwrap();
    live.resume_from("before").unwrap();
    live.wait_for_pause("away").unwrap();
    drop(site);
    live.resume_from("away").unwrap();
    let report = live.report().unwrap();

    let results = given(&report, "call");
    let causes: Vec<&Value> = results.iter().map(|result| &result["_meta"][FAILURE_KEY]["cause"]).collect();
    assert_eq!(causes, ["outcome_unknown", "needs_login", "timed_out", "unavailable"], "{report}");
    for result in &results {
        assert_eq!(result["isError"], true, "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains("the server \"notes\""), "{result}");
    }
    let errors = given(&report, "read");
    assert_eq!(errors.len(), 1, "{report}");
    assert_eq!(errors[0]["error"]["data"]["cause"], "unavailable", "{report}");
}

#[test]
fn w03_python_2_reads_failures_that_happen() {
    reads_failures_that_happen(Python2, Modern);
}

#[test]
fn w03_typescript_1_reads_failures_that_happen() {
    reads_failures_that_happen(TypeScript1, Legacy);
}

#[test]
fn w03_typescript_2_reads_failures_that_happen() {
    reads_failures_that_happen(TypeScript2, Modern);
}
