//! The configuration file: its mistakes, and every server in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::canned::ClosedPort;
use crate::stage::{MENDLINE, Stage, legacy};

fn file(servers: &serde_json::Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

#[test]
fn every_server_of_file_is_examined() {
    let (site, closed) = (legacy(), ClosedPort::new());
    let stage = Stage::with_file(&file(&json!({
        "notes": { "url": site.url() },
        "demo": { "command": MENDLINE, "args": ["demo-server"] },
        "gone": { "url": closed.url() },
        "off": { "command": "false", "disabled": true },
    })));
    insta::assert_snapshot!(stage.doctor(&[]));
}

#[test]
fn servers_are_examined_concurrently_and_shown_in_file_order() {
    // The first server answers only after the others have started, and is shown before them.
    let after = |name: &str, wanted: &str| {
        let run = format!("touch {name}; exec {MENDLINE} demo-server --fault wait-for={wanted}");
        json!({ "command": "sh", "args": ["-c", run] })
    };
    let servers =
        json!({ "a": after("a-began", "c-began"), "b": after("b-began", "c-began"), "c": after("c-began", "b-began") });
    let stage = Stage::with_file(&file(&servers));
    let output = stage.run(&["doctor"]);
    assert_eq!(output.code, 0, "{}", output.stdout);
    let titles: Vec<&str> = output.stdout.lines().filter(|line| line.ends_with("  sh")).collect();
    assert_eq!(titles, ["a  sh", "b  sh", "c  sh"], "{}", output.stdout);
    let output = stage.run(&["doctor", "--json"]).json();
    let names: Vec<_> = output["servers"].as_array().unwrap().iter().map(|server| server["name"].clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn at_most_eight_servers_are_examined_concurrently() {
    let entry = json!({ "command": MENDLINE, "args": ["demo-server", "--fault", "slow-start=100ms"] });
    let servers: serde_json::Map<_, _> = (10..30).map(|number| (format!("s{number}"), entry.clone())).collect();
    let stage = Stage::with_file(&file(&servers.into()));
    let output = stage.run(&["doctor"]);
    assert!(output.code == 0 && output.stdout.contains("All 20 servers are healthy"), "{}", output.stdout);
    let (mut running, mut most) = (0_i32, 0);
    for line in stage.ledger().lines() {
        running += i32::from(line.starts_with("start ")) - i32::from(line.starts_with("eof "));
        most = most.max(running);
    }
    assert!((2..=8).contains(&most), "{most} at once:\n{}", stage.ledger());
}

#[test]
fn one_server_of_file_is_examined_by_name() {
    let (site, closed) = (legacy(), ClosedPort::new());
    let stage = Stage::with_file(&file(&json!({ "notes": { "url": site.url() }, "gone": { "url": closed.url() } })));
    insta::assert_snapshot!(stage.doctor(&["notes"]));
    let output = stage.run(&["doctor", "note"]);
    assert_eq!(output.code, 3);
    assert!(output.stderr.contains("did you mean \"notes\"?"), "{}", output.stderr);
}

#[test]
fn mistakes_of_file_are_reported_with_position() {
    let stage = Stage::with_file(
        "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"true\", \"timeuots\": {} },\n    \"b\": { \"url\": \"http://127.0.0.1:1/\", \"headers\": { \"X\": \"${MENDLINE_TEST_UNSET}\" } }\n  }\n}\n",
    );
    insta::assert_snapshot!(stage.doctor(&[]));
}

#[test]
fn i12_secrets_readable_by_others_are_reported_and_not_shown() {
    let stage = Stage::with_file(&file(&json!({
        "demo": { "command": MENDLINE, "args": ["demo-server"], "env": { "API_TOKEN": "canary-s3cret" } },
    })));
    fs::set_permissions(stage.config(), fs::Permissions::from_mode(0o644)).unwrap();
    let output = stage.run(&["doctor"]);
    assert_eq!(output.code, 0, "{}", output.stdout);
    assert!(output.stdout.contains("others on this machine can read this file"), "{}", output.stdout);
    assert!(output.stdout.contains("chmod 600") && !output.stdout.contains("canary-s3cret"), "{}", output.stdout);
}

#[test]
fn without_file_only_machine_is_examined() {
    insta::assert_snapshot!(Stage::new().doctor(&[]));
}

#[test]
fn state_directory_readable_by_others_is_reported() {
    let stage = Stage::new();
    let state = stage.path().join("state/mendline");
    fs::create_dir_all(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    let output = stage.run(&["doctor"]);
    assert!(output.stdout.contains("other users can read") && output.stdout.contains("chmod 700"), "{}", output.stdout);
    // With a single server, `doctor` shows only problems of the machine.
    insta::assert_snapshot!(stage.doctor(&["--", MENDLINE, "demo-server"]));
}
