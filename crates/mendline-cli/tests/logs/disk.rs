//! Log files on disks that are full, missing or read-only: only log lines are lost.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::{Client, MENDLINE, eventually};
use crate::stage::{LATER, Stage, end};

#[test]
fn x94_unwritable_log_directory_is_reported_once_and_stops_nothing() {
    let stage = Stage::new();
    fs::create_dir(stage.path("state")).unwrap();
    fs::write(stage.path("state/logs"), "a file where a folder should be").unwrap();
    let mut client = stage.bridge(&[], &["stderr-flood=50"]);
    for id in 0..20 {
        assert_eq!(client.result(&id.to_string(), "create_note", &json!({ "key": "k" }))["isError"], false);
    }
    eventually("the log reports it", LATER, || client.log().contains("log files cannot be written"));
    let log = client.log();
    end(client);
    assert_eq!(log.matches("log files cannot be written").count(), 1, "{log}");
    assert!(log.contains("state/logs: "), "{log}");
    let printed = stage.run_logs(&[]);
    assert_eq!(printed.code, 1, "{printed:?}");
    assert!(printed.stderr.contains("state/logs"), "{printed:?}");
}

#[test]
fn x94_file_size_limit_is_reported_once_and_stops_nothing() {
    let stage = Stage::new();
    let mut command = Command::new("prlimit");
    command.args([
        "--fsize=20000",
        "--",
        MENDLINE,
        "run",
        "--",
        MENDLINE,
        "demo-server",
        "--fault",
        "stderr-flood=100",
    ]);
    stage.at_home(&mut command);
    let mut client = Client::start(command.stdin(Stdio::piped()));
    client.read_log();
    client.initialize();
    let mut calls = 0;
    eventually("the limit is reached and reported", LATER, || {
        calls += 1;
        let result = client.result(&calls.to_string(), "create_note", &json!({ "key": "k" }));
        assert_eq!(result["isError"], false, "{result}");
        client.log().contains("log files cannot be written")
    });
    assert_eq!(client.result("after", "create_note", &json!({ "key": "k" }))["isError"], false);
    end(client);
    // The lines that fitted are complete.
    assert!(!stage.records().is_empty());
}

#[test]
fn removed_log_directory_is_created_again() {
    let stage = Stage::new();
    let mut client = stage.bridge(&[], &["stderr-flood=1"]);
    eventually("there is a file", LATER, || !stage.files().is_empty());
    fs::remove_dir_all(stage.logs()).unwrap();
    client.result("a", "lookup", &json!({ "key": "k" }));
    end(client);
    assert!(stage.run_logs(&[]).stdout.contains("demo-server: call 1"));
}

/// The test is skipped, with the reason printed, only where the kernel does not allow mounts.
#[test]
fn x94_full_disk_is_reported_once_and_stops_nothing() {
    let stage = Stage::new();
    fs::create_dir(stage.path("state")).unwrap();
    let isolated = ["--map-root-user", "--mount", "--", "sh", "-c"];
    let mount = format!("mount -t tmpfs -o size=128k,mode=0700 full '{}'", stage.path("state").display());
    let attempt = Command::new("unshare").args(isolated).arg(&mount).output().expect("unshare, of util-linux");
    if !attempt.status.success() {
        println!("left out, nothing can be mounted here: {}", String::from_utf8_lossy(&attempt.stderr));
        return;
    }
    let run =
        format!("{mount} && exec '{MENDLINE}' run --name notes -- '{MENDLINE}' demo-server --fault stderr-flood=200");
    let mut command = Command::new("unshare");
    command.args(isolated).arg(&run);
    stage.at_home(&mut command);
    let mut client = Client::start(command.stdin(Stdio::piped()));
    client.read_log();
    client.initialize();
    let mut calls = 0;
    eventually("the disk is full, which is reported", LATER, || {
        calls += 1;
        let result = client.result(&calls.to_string(), "create_note", &json!({ "key": "k" }));
        assert_eq!(result["isError"], false, "{result}");
        client.log().contains("log files cannot be written")
    });
    for id in 0..20 {
        assert_eq!(client.result(&format!("after {id}"), "create_note", &json!({ "key": "k" }))["isError"], false);
    }
    let log = client.log();
    end(client);
    assert_eq!(log.matches("log files cannot be written").count(), 1, "{log}");
    assert!(log.contains("No space left on device"), "{log}");
}
