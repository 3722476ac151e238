//! `mendline demo`: its counts match its picture in the README, and it leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{MENDLINE, SOON, eventually, is_gone, kill, lines_of};

/// The deadline for a complete demo on a busy machine.
const LONG: Duration = Duration::from_secs(90);

/// Returns the demo command with few calls and a clean environment.
fn demo(folder: &TempDir) -> Command {
    let mut command = Command::new(MENDLINE);
    command.args(["demo", "--calls", "8"]).env("TMPDIR", folder.path()).env("XDG_RUNTIME_DIR", folder.path());
    command.env("HOME", folder.path()).env("COLUMNS", "80").stdin(Stdio::null());
    command
}

/// Returns the faults of the final table, each with the outcome of the calls through Mendline.
fn rows(text: &str) -> Vec<(String, String)> {
    let cell = |line: &str, from: usize, to: usize| -> String { line.chars().skip(from).take(to - from).collect() };
    let rows = text.lines().filter(|line| line.contains('×'));
    rows.map(|line| (cell(line, 2, 26).trim().to_owned(), cell(line, 60, 80).trim().to_owned())).collect()
}

/// Returns the same from the description of the picture, whose twenty calls are eight here.
fn rows_of_the_picture() -> Vec<(String, String)> {
    let picture = include_str!("../../../../docs/demo.svg").split("<desc>").nth(1).expect("a description");
    let shown = picture.split("</desc>").next().expect("the picture describes the table");
    let rows = rows(shown).into_iter();
    rows.map(|(fault, mended)| (fault, mended.replace("20", "8").replace("19", "7"))).collect()
}

/// Returns the files that the demo left, except those that any process leaves.
fn leftovers(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("mendline-demo")).collect()
}

/// Returns the pids that the servers have recorded.
fn servers(folder: &Path) -> Vec<i32> {
    let mut servers = Vec::new();
    for workshop in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let ledgers = fs::read_dir(&workshop).into_iter().flatten().map(|entry| entry.unwrap().path());
        for text in ledgers.filter_map(|ledger| fs::read_to_string(ledger).ok()) {
            servers.extend(text.lines().filter_map(|line| line.strip_prefix("start ")?.parse::<i32>().ok()));
        }
    }
    servers
}

#[test]
fn t07_demo_results_match_readme_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo(&folder).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let faulty = format!("{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{faulty}");
    // Ten faults with eight calls each. Two calls have an unknown outcome, and both are reported.
    assert!(printed.contains(" 78 of 80 (97 %)\n"), "{faulty}");
    let rows = rows(&printed);
    assert_eq!(rows.iter().filter(|(_, mended)| mended == "8 of 8").count(), 8, "{faulty}");
    assert_eq!(rows.iter().filter(|(_, mended)| mended == "7 of 8, 1 unknown").count(), 2, "{faulty}");
    let shown = rows_of_the_picture();
    assert_eq!(shown, rows, "docs/demo.svg shows another table; make it with `cargo xtask picture`");
    assert!(printed.contains("create_note was sent to the server"), "{faulty}");
    assert!(printed.contains("No call was lost, no write ran twice, no write was invented."), "{faulty}");
    assert!(!printed.contains('\u{1b}'), "a pipe gets plain lines: {faulty}");
    // The path of this program may be long.
    let lines = printed.lines().filter(|line| !line.ends_with(" wrap --dry-run"));
    let longest = lines.map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest} columns: {faulty}");
    assert_eq!(leftovers(folder.path()), Vec::<String>::new());
    u04_next_step_works_as_printed(&printed, &folder);
}

/// The demo takes long, so that its next step is tested with the same output.
fn u04_next_step_works_as_printed(printed: &str, folder: &TempDir) {
    let step = printed.lines().find(|line| line.ends_with(" wrap --dry-run")).expect("a next step").trim();
    fs::create_dir(folder.path().join(".cursor")).unwrap();
    let entry = r#"{ "mcpServers": { "notes": { "command": "notes-server" } } }"#;
    fs::write(folder.path().join(".cursor/mcp.json"), entry).unwrap();
    let output = Command::new("sh").args(["-c", step]).env("HOME", folder.path()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{step}: {stdout}{stderr}");
    assert!(stdout.contains("\"run\""), "{stdout}");
    assert!(stdout.contains("this was a dry run"), "{stdout}");
    assert!(stderr.contains("warning: ") && stderr.contains("cargo install"), "{stderr}");
    assert_eq!(fs::read_to_string(folder.path().join(".cursor/mcp.json")).unwrap(), entry, "nothing is written");
}

#[test]
fn stopped_demo_leaves_no_process_or_file() {
    for (signal, when) in [(Signal::INT, " 2/10"), (Signal::TERM, " 6/10")] {
        let folder = tempfile::tempdir().unwrap();
        let mut process = demo(&folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(process.stdout.take().unwrap());
        while !lines.recv_timeout(LONG).unwrap().contains(when) {}
        eventually("a server runs", SOON, || servers(folder.path()).iter().any(|server| !is_gone(*server)));
        let servers = servers(folder.path());
        kill(i32::try_from(process.id()).unwrap(), signal);
        let mut status = None;
        eventually("it ends", SOON * 2, || {
            status = process.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(1));
        assert_eq!(leftovers(folder.path()), Vec::<String>::new());
        eventually("all servers are gone", SOON, || servers.iter().all(|server| is_gone(*server)));
    }
}

#[test]
fn demo_ends_when_its_output_closes() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = demo(&folder).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(process.stdout.take());
    let mut code = None;
    eventually("it ends", LONG, || {
        code = process.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(0), "a closed reader is not a failure");
    assert_eq!(leftovers(folder.path()), Vec::<String>::new());
}
