//! The client scenarios of the conformance suite about authorization, with `mendline run` as the client.
//!
//! `tests/login/conformance.json` has the expected result of each scenario in each revision. A scenario that fails
//! although it is expected to pass is an error, and one that passes although it is expected to fail, too. A scenario that
//! the suite has and the table lacks is an error. `cargo xtask logins` installs the suite and runs this test.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test prints its table")]

mod programs;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use mendline_peers::logins::node;
use mendline_peers::stage::installed;
use serde_json::Value;
use tempfile::TempDir;

/// The scenarios that run at the same time. Each waits most of its time.
const JOBS: usize = 4;
/// The time limit of a scenario.
const LIMIT_MS: &str = "60000";

/// A scenario in one revision of the protocol, or an extension.
type Case = (String, String);

/// The failed checks of each case; none if it passes.
type Table = BTreeMap<Case, Vec<String>>;

/// The failed checks of a case, its output and its seconds.
type Done = (Vec<String>, String, f64);

fn suite() -> Command {
    let mut command = Command::new(node().unwrap());
    command.arg(installed("login/node_modules/@modelcontextprotocol/conformance/dist/index.js").unwrap());
    command
}

/// Returns the cases that the suite has.
fn cases() -> Vec<Case> {
    let output = suite().arg("list").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut cases = Vec::new();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("- auth/")) {
        let (name, revisions) = line.split_once(" [").unwrap();
        for revision in revisions.trim_end_matches(']').split(',') {
            cases.push((name.to_owned(), revision.to_owned()));
        }
    }
    cases
}

/// Returns the expected results.
fn expected() -> Table {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("login/conformance.json")).unwrap();
    let table: BTreeMap<String, BTreeMap<String, Vec<String>>> = serde_json::from_str(&text).unwrap();
    let rows = table.into_iter().flat_map(|(name, revisions)| {
        revisions.into_iter().map(move |(revision, failed)| ((name.clone(), revision), failed))
    });
    rows.collect()
}

/// Runs a case and returns its failed checks and its output.
fn run(case: &Case, folder: &Path) -> (Vec<String>, String) {
    let (name, revision) = case;
    let client = installed("login/conformance-client.mjs").unwrap();
    let mendline = programs::built().mendline;
    let command = format!("{} {} {}", node().unwrap().display(), client.display(), mendline.display());
    let results = folder.join(format!("{name}-{revision}"));
    let mut suite = suite();
    suite.args(["client", "--command", &command, "--scenario", &format!("auth/{name}"), "--timeout", LIMIT_MS]);
    suite.arg("--output-dir").arg(&results);
    if revision != "extension" {
        suite.args(["--spec-version", revision]);
    }
    let output = suite.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let mut failed = failed_checks(&results);
    if !output.status.success() && failed.is_empty() {
        failed.push("the client failed".to_owned());
    }
    let client = read_all(&results, "stderr.txt");
    (failed, format!("{text}\n{client}"))
}

/// Returns the checks of a result that failed or warned.
fn failed_checks(results: &Path) -> Vec<String> {
    let text = read_all(results, "checks.json");
    let checks: Value = serde_json::from_str(&text).unwrap_or_default();
    let checks = checks.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let failed = checks.filter(|check| check["status"] == "FAILURE" || check["status"] == "WARNING");
    let mut ids: Vec<String> = failed.map(|check| check["id"].as_str().unwrap_or_default().to_owned()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Returns the text of a file in the one folder of a result.
fn read_all(results: &Path, name: &str) -> String {
    let mut folders = vec![results.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|file| file == name) {
                return fs::read_to_string(path).unwrap_or_default();
            }
        }
    }
    String::new()
}

#[test]
fn auth_scenarios_of_the_suite_have_the_expected_results() {
    let folder = TempDir::new().unwrap();
    let only = std::env::var("MENDLINE_SCENARIO").unwrap_or_default();
    let all: Vec<Case> = cases().into_iter().filter(|(name, _)| name.contains(&only)).collect();
    assert!(!only.is_empty() || all.len() > 40, "the suite lists {} cases", all.len());
    let waiting = Mutex::new(all.clone());
    let done: Mutex<BTreeMap<Case, Done>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                loop {
                    let Some(case) = waiting.lock().unwrap().pop() else { return };
                    let begun = Instant::now();
                    let (failed, text) = run(&case, folder.path());
                    done.lock().unwrap().insert(case, (failed, text, begun.elapsed().as_secs_f64()));
                }
            });
        }
    });
    let (expected, mut wrong) = (expected(), String::new());
    for (case, (failed, text, seconds)) in &done.into_inner().unwrap() {
        let (name, revision) = case;
        let result = if failed.is_empty() { "pass".to_owned() } else { failed.join(", ") };
        println!("{name:<42}{revision:<12}{seconds:>5.1} s  {result}");
        match expected.get(case) {
            None => drop(writeln!(wrong, "{name} {revision} is not in the table: {result}")),
            Some(known) if known != failed => {
                let _ = writeln!(wrong, "{name} {revision}: expected {known:?}, got {failed:?}\n{text}");
            }
            Some(_) => {}
        }
    }
    let gone: Vec<&Case> = expected.keys().filter(|case| only.is_empty() && !all.contains(case)).collect();
    assert!(gone.is_empty(), "in the table and not in the suite: {gone:?}");
    assert!(wrong.is_empty(), "{wrong}");
}
