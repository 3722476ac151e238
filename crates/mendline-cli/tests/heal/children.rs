//! Children that crash at start, cannot be started, or are stopped.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Signal;
use serde_json::json;

use crate::answer_within;
use crate::client::{Client, MENDLINE, SOON, eventually, failure, kill};
use crate::support::{Bridge, Setup};

/// The deadline for events that need several timers on a busy machine.
const LATER: Duration = Duration::from_secs(30);

/// Parked after the fourth attempt to start it again.
const SOON_PARKED: [&str; 4] = ["--max-retries", "4", "--initial-retry-delay", "10ms"];

#[test]
fn p55_crash_loop_parks_server_with_stderr_tail() {
    let mut bridge = Bridge::start(Setup { faults: &["exit-at-once=3"], options: &SOON_PARKED, ..Setup::default() });
    bridge.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = answer_within(&mut bridge, "init", LATER)["error"].clone();
    assert_eq!((&error["code"], &error["data"]["cause"]), (&json!(-31007), &json!("parked")), "{error}");
    assert_eq!(error["data"]["outcome"], "not_sent", "{error}");
    let message = error.to_string();
    assert!(message.contains("cannot start, giving up"), "the stderr tail is in the answer: {error}");
    let starts = bridge.noted("start").len();
    assert_eq!(starts, 5, "five exits, and no sixth start");

    // A call meanwhile gets a failure with the retry time. It does not start the server at once.
    let begun = Instant::now();
    bridge.request("again", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = answer_within(&mut bridge, "again", LATER)["error"].clone();
    assert_eq!(error["data"]["cause"], "parked", "{error}");
    let wait = Duration::from_millis(error["data"]["retryAfterMs"].as_u64().unwrap());
    assert!(wait <= Duration::from_secs(60), "{error}");
    assert!(bridge.noted("start").len() <= starts + 1, "{:?} after {:?}", bridge.noted("start"), begun.elapsed());
    bridge.stdin = None;
    assert_eq!(bridge.exit_code(SOON), Some(1));
}

#[test]
fn p55_next_call_reaches_server_that_stopped_crashing() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("may-live");
    let script = format!(
        "test -e '{}' && exec '{MENDLINE}' demo-server; echo 'the database is locked' >&2; exit 3",
        gate.display()
    );
    let mut bridge =
        Bridge::start(Setup { command: Some(&["sh", "-c", &script]), options: &SOON_PARKED, ..Setup::default() });
    bridge.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let error = answer_within(&mut bridge, "init", LATER)["error"].clone();
    assert_eq!(error["data"]["cause"], "parked", "{error}");
    assert!(error["message"].as_str().unwrap().contains("the database is locked"), "{error}");
    fs::write(&gate, "").unwrap();
    // A call may dial a parked server once in ten seconds.
    let deadline = Instant::now() + LATER;
    let mut tries = 0;
    loop {
        tries += 1;
        let id = format!("try {tries}");
        bridge.request(&id, "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
        let answer = answer_within(&mut bridge, &id, LATER);
        if answer["result"].is_object() {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}; log:\n{}", bridge.log());
        let wait = answer["error"]["data"]["retryAfterMs"].as_u64().unwrap();
        thread::sleep(Duration::from_millis(wait));
    }
    assert!(tries <= 4, "the announced wait was right: {tries}");
}

#[test]
fn p57_stopped_server_is_replaced_and_its_calls_are_unknown() {
    let mut bridge = Bridge::start(Setup { options: &["--tool-timeout", "create_note=1s"], ..Setup::default() });
    bridge.initialize();
    let frozen = bridge.server();
    kill(frozen, Signal::STOP);
    let begun = Instant::now();
    let result = bridge.result("write", "create_note", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
    // Mendline pings the link at once: two pings of ten seconds with a pause of one second. Then it kills the child.
    eventually("a new server starts", 2 * LATER, || bridge.noted("start").len() == 2);
    assert!(begun.elapsed() > Duration::from_secs(20), "it was given its time: {:?}", begun.elapsed());
    eventually("the frozen one is gone", SOON, || crate::support::is_gone(frozen));
    let next = bridge.result("next", "lookup", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "l is 42", "{next}");
    assert_eq!((bridge.executions("create_note", "k"), bridge.executions("lookup", "l")), (0, 1));
}

#[test]
fn p57_briefly_stopped_server_is_kept() {
    let mut bridge = Bridge::start(Setup { options: &["--tool-timeout", "lookup=1s"], ..Setup::default() });
    bridge.initialize();
    kill(bridge.server(), Signal::STOP);
    let result = bridge.result("read", "lookup", &json!({ "key": "k" }));
    assert_eq!(failure(&result)["cause"], "timed_out", "{result}");
    kill(bridge.server(), Signal::CONT);
    let next = bridge.result("next", "create_note", &json!({ "key": "l" }));
    assert_eq!(next["content"][0]["text"], "wrote l", "{next}");
    assert_eq!((bridge.noted("start").len(), bridge.executions("create_note", "l")), (1, 1));
}

/// A uid without processes, so that the limit counts only those of this test. The limit does not apply to root.
const UNUSED_UID: u32 = 54_361;

fn as_unused_user(command: &mut Command) -> &mut Command {
    if rustix::process::geteuid().is_root() { command.uid(UNUSED_UID).gid(UNUSED_UID) } else { command }
}

/// Limits the processes of the user of this process. `prlimit` runs as that user, because not every root may change the
/// limits of other users.
fn limit_processes(pid: u32, to: &str) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &pid.to_string(), &format!("--nproc={to}:")]).current_dir("/");
    let output = as_unused_user(&mut command).output().expect("prlimit, of util-linux");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn p61_calls_wait_until_fork_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    // The target directory may be closed to other users, so the test copies the binary.
    let (binary, ledger) = (folder.path().join("mendline"), folder.path().join("ledger"));
    fs::copy(MENDLINE, &binary).unwrap();
    fs::write(&ledger, "").unwrap();
    for (path, mode) in [(folder.path(), 0o755), (&binary, 0o755), (&ledger, 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Command::new(&binary);
    command.args(["run", "--"]).arg(&binary).arg("demo-server").env("MENDLINE_DEMO_LEDGER", &ledger);
    command.stdin(Stdio::piped()).current_dir("/");
    let mut client = Client::start(as_unused_user(&mut command));
    client.read_log();
    assert_eq!(client.initialize(), "demo-server");
    let noted = |what: &str| {
        let text = fs::read_to_string(&ledger).unwrap();
        text.lines().filter_map(|line| line.strip_prefix(what)?.trim().parse().ok()).collect::<Vec<i32>>()
    };
    let mendline = client.process.id();
    limit_processes(mendline, "1");
    kill(noted("start ")[0], Signal::KILL);
    eventually("the log gives the reason", SOON, || client.log().contains("Resource temporarily unavailable"));
    client.call("waits", "create_note", &json!({ "key": "k" }));
    assert_eq!(noted("start ").len(), 1);
    limit_processes(mendline, "100");
    let answer = answer_within(&mut client, "waits", LATER);
    assert_eq!(answer["result"]["content"][0]["text"], "wrote k", "{answer}");
    assert_eq!(fs::read_to_string(&ledger).unwrap().matches("executed create_note k").count(), 1);
}
