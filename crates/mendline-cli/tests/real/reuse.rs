//! Process ids that the kernel reuses while Mendline runs.
//!
//! Each test runs in its own pid namespace, where it chooses the pid of the next process. A pid that a child of
//! Mendline had goes to a bystander: an unrelated process that leads its own group. Every bystander must survive the
//! exit of Mendline.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::namespace::inside_of;
use crate::support::{Bridge, SOON, Setup, children_of, eventually, is_gone};

const PID_NAMESPACE: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];
/// The last pid that was given. The next process gets the next free one.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

fn last_pid() -> u32 {
    fs::read_to_string(LAST_PID).unwrap().trim().parse().unwrap()
}

fn is_free(number: u32) -> bool {
    !Path::new("/proc").join(number.to_string()).exists()
}

/// Starts a process with this pid, unless it is taken.
fn bystander(number: u32) -> Option<Child> {
    while is_free(number) {
        fs::write(LAST_PID, (number - 1).to_string()).unwrap();
        let mut child =
            Command::new("cat").process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        if child.id() == number {
            return Some(child);
        }
        // Another process got the pid.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// The client closes stdin.
    Normal,
    /// SIGKILL.
    Killed,
}

/// Runs a command that is restarted until the log contains the text, and gives the pids of its dead processes to
/// bystanders.
fn assert_bystanders_live(command: &[&str], log: &str, end: End) {
    let before = last_pid();
    // No process is started while the bystanders take the pids.
    let options = ["--max-retries", "2", "--initial-retry-delay", "10ms"];
    let mut bridge = Bridge::start(Setup { command: Some(command), options: &options, ..Setup::default() });
    bridge.request("init", "initialize", &serde_json::json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    eventually("the start fails", SOON, || bridge.log().contains(log));
    let error = bridge.answer("init");
    assert!(error["error"].is_object(), "it is not tried again: {error}");
    let children = children_of(bridge.process.id());
    let mut bystanders: Vec<Child> = (before + 1..=last_pid()).filter_map(bystander).collect();
    assert!(!bystanders.is_empty(), "no number was free");
    match end {
        End::Normal => bridge.stdin = None,
        End::Killed => bridge.process.kill().unwrap(),
    }
    eventually("Mendline ends", SOON, || bridge.process.try_wait().unwrap().is_some());
    eventually("its guard ends", SOON, || children.iter().all(|child| is_gone(*child)));
    for bystander in &mut bystanders {
        let ended = bystander.try_wait().unwrap();
        assert_eq!(ended, None, "{command:?}, {end:?}: process {} was signalled", bystander.id());
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }
}

#[test]
fn s02_guard_spares_process_with_pid_of_failed_start() {
    inside_of(&PID_NAMESPACE, "reuse::s02_guard_spares_process_with_pid_of_failed_start", || {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "neither a program nor a script").unwrap();
        for end in [End::Normal, End::Killed] {
            assert_bystanders_live(&["/nonexistent/server"], "was not found", end);
            assert_bystanders_live(&[plain.to_str().unwrap()], "may not be run", end);
        }
    });
}

#[test]
fn s02_guard_spares_process_with_pid_of_reaped_child() {
    inside_of(&PID_NAMESPACE, "reuse::s02_guard_spares_process_with_pid_of_reaped_child", || {
        for end in [End::Normal, End::Killed] {
            assert_bystanders_live(&["false"], "exit code 1", end);
        }
    });
}
