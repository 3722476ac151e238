//! Probes of configured servers that do not run.

use std::fs;

use mendline_faults::{Answers, Rule};
use serde_json::{Value, json};

use crate::client::MENDLINE;
use crate::site::{Site, json_answers, modern};
use crate::stage::{CommandOutput, Stage, until_gone};

fn configured(stage: &Stage, servers: &Value) -> String {
    let path = stage.folder().join("servers.json");
    fs::write(&path, json!({ "mcpServers": servers }).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn probe_initializes_each_stopped_server_and_ends_it() {
    let (stage, site, guarded) = (Stage::new(), Site::start(json_answers()), Site::start(json_answers()));
    guarded.add_fault(Rule::new("a73_token_expired_401").verb("POST"));
    let demo = json!({ "command": MENDLINE, "args": ["demo-server"] });
    let file = configured(
        &stage,
        &json!({
            "runs": demo,
            "rests": demo,
            "mute": { "command": "sleep", "args": ["600"] },
            "dies": { "command": MENDLINE, "args": ["demo-server", "--fault", "exit-at-once=3"] },
            "ghost": { "command": "/nonexistent/server" },
            "off": { "command": MENDLINE, "disabled": true },
            "far": { "url": site.url() },
            "guarded": { "url": guarded.url() },
        }),
    );
    let _running = stage.bridge("runs");
    let outcomes = |report: &Value| -> Vec<(String, String)> {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        let all = report["probed"].as_array().unwrap();
        all.iter().map(|probed| (word(&probed["name"]), word(&probed["outcome"]))).collect()
    };
    let arguments = ["status", "--json", "--probe", "--config", &file, "--within", "5s"];
    // A probe of a healthy server may time out on a busy machine and is repeated. The silent server fails every time.
    let is_settled = |output: &CommandOutput| {
        let outcomes = outcomes(&output.json());
        let is = |name: &str, outcome: &str| outcomes.contains(&(name.to_owned(), outcome.to_owned()));
        is("rests", "answers")
            && is("far", "answers")
            && is("guarded", "needsLogin")
            && !is("runs", "answers")
            && output.stdout.contains("exit code 3")
    };
    let output = stage.query_until(&arguments, is_settled);
    assert_eq!(output.code, Some(0), "{output:?}");
    let report = output.json();
    let probed = |name: &str| {
        let all = report["probed"].as_array().unwrap();
        all.iter().find(|probed| probed["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}")).clone()
    };
    let names: Vec<_> = outcomes(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["dies", "far", "ghost", "guarded", "mute", "off", "rests"],
        "in the order of the file, without the one that runs"
    );
    assert_eq!(probed("rests")["outcome"], "answers", "{report:#}");
    assert!(probed("rests")["server"].as_str().unwrap().starts_with("demo-server "), "{report:#}");
    assert_eq!((&probed("far")["outcome"], &probed("far")["transport"]), (&json!("answers"), &json!("http")));
    assert_eq!((&probed("off")["outcome"], &probed("mute")["outcome"]), (&json!("disabled"), &json!("fails")));
    assert_eq!(probed("mute")["why"], "no answer in time");
    assert!(probed("dies")["why"].as_str().unwrap().contains("exit code 3"), "{report:#}");
    assert!(probed("ghost")["why"].as_str().unwrap().contains("not found"), "{report:#}");
    assert_eq!(probed("guarded")["outcome"], "needsLogin", "{report:#}");
    let ledger = fs::read_to_string(stage.folder().join("ledger")).unwrap();
    let started: Vec<i32> = ledger.lines().filter_map(|line| line.strip_prefix("start ")?.parse().ok()).collect();
    let runs = crate::stage::child(&stage.server("runs"));
    started.into_iter().filter(|pid| *pid != runs).for_each(until_gone);
}

#[test]
fn probed_server_is_row_of_table() {
    let stage = Stage::new();
    let file = configured(&stage, &json!({ "rests": { "command": MENDLINE, "args": ["demo-server"] } }));
    let is_probed = |output: &CommandOutput| output.stdout.contains("rests   stdio  not running; demo-server ");
    let output = stage.query_until(&["status", "--probe", "--config", &file], is_probed);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("1 server not running, of which 1 would answer"), "{}", output.stdout);
    stage.query_until(&["status", "rests", "--probe", "--config", &file], |output| output.code == Some(0));
}

#[test]
fn probe_without_file_reports_no_servers() {
    let stage = Stage::new();
    let output = stage.query(&["status", "--probe"]);
    assert!(output.code == Some(2) && output.stderr.contains("error:"), "{output:?}");
    let output = stage.query(&["status", "--probe", "--config", "/nonexistent.json"]);
    assert_eq!(output.code, Some(2), "{output:?}");
}

#[test]
fn probe_reaches_server_of_the_modern_era_only() {
    let (stage, site) = (Stage::new(), Site::start(modern(Answers::Json)));
    let file = configured(&stage, &json!({ "new": { "url": site.url() } }));
    let arguments = ["status", "--json", "--probe", "--config", &file, "--within", "5s"];
    // A probe may time out on a busy machine and is repeated.
    let answers = |output: &CommandOutput| output.json()["probed"][0]["outcome"] == "answers";
    assert!(stage.query_until(&arguments, answers).json()["probed"][0]["server"].is_string());
}
