//! The server scenarios of the conformance suite, directly and through `mendline serve`.
//!
//! The server is `tests/node/conformance-server.mjs`, on the official TypeScript package. `tests/node/conformance.json`
//! has the checks that fail or warn; they must be the same directly and through the gateway. A check that fails and is
//! not in the file is an error, and one that is in the file and passes, too. `cargo xtask conformance` installs the suite
//! and runs these tests.
//!
//! Without the gateway, the exchange of a question and its answer between the suite and the server sometimes does not
//! end on a busy machine. So a scenario that times out directly is run again directly. Through the gateway every scenario
//! runs once.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test prints its table")]

mod programs;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use mendline_peers::gateway::Gateway;
use mendline_peers::listening_server::ListeningServer;
use mendline_peers::logins::node;
use mendline_peers::stage::installed;
use serde_json::Value;
use tempfile::TempDir;

/// The time limit of a scenario.
const LIMIT_MS: &str = "20000";

/// The number of runs of a scenario that times out without the gateway.
const DIRECT_RUNS: usize = 3;

/// The check that reports a timeout.
const TIMEOUT: &str = "scenario-timeout";

/// The number of scenarios that every revision has at least.
const SCENARIOS: usize = 25;

/// The failed checks of each scenario, and the number of the others.
type Table = BTreeMap<String, (Vec<String>, usize)>;

/// Runs all scenarios of a revision against a URL, or one.
fn run(url: &str, revision: &str, only: Option<&str>, results: &Path) -> Table {
    let mut suite = Command::new(node().unwrap());
    suite.arg(installed("login/node_modules/@modelcontextprotocol/conformance/dist/index.js").unwrap());
    suite.args(["server", "--url", url, "--suite", "all", "--spec-version", revision, "--timeout", LIMIT_MS]);
    if let Some(scenario) = only {
        suite.args(["--scenario", scenario]);
    }
    let output = suite.arg("--output-dir").arg(results).output().unwrap();
    let mut table = Table::new();
    for entry in fs::read_dir(results).into_iter().flatten() {
        let path = entry.unwrap().path();
        let checks = fs::read_to_string(path.join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_str(&checks).unwrap();
        table.insert(scenario_of(&path), judged(&checks));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(only.is_some() || table.len() >= SCENARIOS, "only {} scenarios ran:\n{text}", table.len());
    table
}

/// Returns the name of a scenario from the folder of its result, `server-NAME-2026-07-28T12-00-00-000Z`.
fn scenario_of(folder: &Path) -> String {
    const TIME: usize = "-2026-07-28T12-00-00-000Z".len();
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let name = name.strip_prefix("server-").unwrap_or(&name);
    name[..name.len() - TIME].to_owned()
}

/// Returns the checks that failed or warned, and the number of those that passed.
fn judged(checks: &[Value]) -> (Vec<String>, usize) {
    let is = |check: &Value, status: &str| check["status"] == status;
    let failed = checks.iter().filter(|check| is(check, "FAILURE") || is(check, "WARNING"));
    let mut ids: Vec<String> = failed
        .map(|check| {
            println!("  {}: {}", check["id"], check["errorMessage"]);
            check["id"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    (ids, checks.iter().filter(|check| is(check, "SUCCESS")).count())
}

/// Runs the scenarios without the gateway, and again those that time out.
fn run_directly(url: &str, revision: &str, only: Option<&str>, folder: &Path) -> Table {
    let mut table = run(url, revision, only, &folder.join("direct-1"));
    for number in 2..=DIRECT_RUNS {
        let late: Vec<String> = table
            .iter()
            .filter(|(_, (failed, _))| failed.iter().any(|check| check == TIMEOUT))
            .map(|(name, _)| name.clone())
            .collect();
        for name in late {
            println!("{name} timed out directly; run {number}");
            let again = run(url, revision, Some(&name), &folder.join(format!("direct-{number}-{name}")));
            table.extend(again);
        }
    }
    table
}

/// Returns the expected failures of a revision.
fn expected(revision: &str) -> BTreeMap<String, Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("node/conformance.json");
    let table: BTreeMap<String, BTreeMap<String, Vec<String>>> =
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let rows = table.into_iter().filter_map(|(name, mut revisions)| Some((name, revisions.remove(revision)?)));
    rows.collect()
}

fn same_through_gateway(revision: &str) {
    let folder = TempDir::new().unwrap();
    let command: [OsString; 2] = ["node".into(), installed("node/conformance-server.mjs").unwrap().into()];
    let server = ListeningServer::start(&command, &folder.path().join("server.txt")).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", server.port());
    let gateway = Gateway::start(&programs::built(), folder.path(), &[url.clone().into()]).unwrap();
    println!("{revision}, directly");
    let only = std::env::var("MENDLINE_SCENARIO").ok();
    let direct = run_directly(&url, revision, only.as_deref(), folder.path());
    println!("{revision}, through the gateway");
    let through = run(&gateway.url(), revision, only.as_deref(), &folder.path().join("through"));
    let expected = expected(revision);
    let mut wrong = Vec::new();
    for (name, (failed, passed)) in &direct {
        let (failed_through, passed_through) = through.get(name).cloned().unwrap_or_default();
        println!("{name:<50}{passed:>4}{passed_through:>4}  {}", failed_through.join(", "));
        let known = expected.get(name).cloned().unwrap_or_default();
        if *failed != known {
            wrong.push(format!("{name}: directly {failed:?}, expected {known:?}"));
        }
        if failed_through != known {
            wrong.push(format!("{name}: through the gateway {failed_through:?}, expected {known:?}"));
        }
        if !through.contains_key(name) {
            wrong.push(format!("{name}: not run through the gateway"));
        }
    }
    let log = if wrong.is_empty() { String::new() } else { gateway.log() };
    assert!(wrong.is_empty(), "{}\n{log}", wrong.join("\n"));
}

#[test]
fn scenarios_of_2025_06_18_have_the_same_results() {
    same_through_gateway("2025-06-18");
}

#[test]
fn scenarios_of_2025_11_25_have_the_same_results() {
    same_through_gateway("2025-11-25");
}

#[test]
fn scenarios_of_2026_07_28_have_the_same_results() {
    same_through_gateway("2026-07-28");
}
