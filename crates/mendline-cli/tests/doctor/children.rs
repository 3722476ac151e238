//! Servers started as commands, each with one defect.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::stage::{MENDLINE, Stage};

/// Compares the output of `mendline doctor` for a command with a snapshot.
macro_rules! snapshot_test {
    ($name:ident, $($word:expr),+) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), Stage::new().doctor(&["--timeout", "20s", "--", $($word),+]));
        }
    };
}

snapshot_test!(healthy_command_is_reported, MENDLINE, "demo-server");
snapshot_test!(noise_on_stdout_is_reported, MENDLINE, "demo-server", "--fault", "noise");
snapshot_test!(immediate_exit_is_reported_with_stderr, "sh", "-c", "echo 'NOTES_TOKEN is not set' >&2; exit 3");
snapshot_test!(silent_exit_is_reported, "false");
snapshot_test!(missing_command_is_reported, "/nonexistent/notes-server");
snapshot_test!(error_to_handshake_is_reported, "sh", "-c", NO);

/// Answers every request with an error.
const NO: &str = r#"while read line; do
    id=${line#*\"id\":}; id=${id%%,*}
    printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no licence"}}\n' "$id"
done"#;

/// Supports the legacy era and exits on any other request.
const TIMID: &str = r#"while read line; do
    id=${line#*\"id\":}; id=${id%%,*}
    case $line in
        *initialize\"*) body='"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"timid"}' ;;
        *ping*) body= ;;
        *notifications*) continue ;;
        *) exit 1 ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":{%s}}\n' "$id" "$body"
done"#;

/// Supports both eras, and in each process only the era of the first request.
const UNDECIDED: &str = r#"era=
while read line; do
    id=${line#*\"id\":}; id=${id%%,*}
    case $era$line in
        legacy*ping*) body='"result":{}' ;;
        {*initialize\"*)
            era=legacy
            body='"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"undecided"}}'
            ;;
        {*discover*) body='"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}' ;;
        *notifications*) continue ;;
        *) body='"error":{"code":-32601,"message":"what?"}' ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$body"
done"#;

snapshot_test!(era_chosen_by_first_request_is_reported, "sh", "-c", UNDECIDED);
snapshot_test!(exit_on_request_of_other_era_is_reported, "sh", "-c", TIMID);

#[test]
fn unanswered_handshake_is_reported() {
    insta::assert_snapshot!(Stage::new().doctor(&["--timeout", "1s", "--", "sleep", "60"]));
}

#[test]
fn plain_text_on_stdout_is_reported() {
    let shell = "echo Welcome to notes!; exec sleep 60";
    let examine = || Stage::new().doctor(&["--timeout", "1s", "--", "sh", "-c", shell]);
    let mut printed = examine();
    // A busy machine may need the whole time to start the shell. Then it has printed nothing yet.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !printed.contains("Welcome") && Instant::now() < deadline {
        printed = examine();
    }
    insta::assert_snapshot!(printed);
}

#[test]
fn command_without_execute_permission_is_reported() {
    let stage = Stage::new();
    let path = stage.path().join("notes-server");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    insta::assert_snapshot!(stage.doctor(&["--", path.to_str().unwrap()]));
}

#[test]
fn mistyped_command_gets_suggestion() {
    let stage = Stage::new();
    let folder = stage.path().join("bin");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("notes-server"), "").unwrap();
    let mut command = stage.command(&["doctor", "--", "notes-servr"]);
    let printed = crate::stage::CommandOutput::of(command.env("PATH", &folder).output().unwrap());
    assert_eq!(printed.code, 1);
    assert!(printed.stdout.contains("Did you mean `notes-server`?"), "{}", printed.stdout);
}

#[test]
fn examined_command_is_ended() {
    let stage = Stage::new();
    assert_eq!(stage.run(&["doctor", "--", MENDLINE, "demo-server"]).code, 0);
    let started = stage.ledger();
    let pid = started.lines().find_map(|line| line.strip_prefix("start ")).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{started}");
}
