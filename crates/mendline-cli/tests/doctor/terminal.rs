//! The output on a terminal: progress bar, escapes and colours.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::stage::{MENDLINE, Stage};

/// Runs a command on its own terminal. Returns all output and the exit code.
fn on_a_terminal(stage: &Stage, arguments: &[&str]) -> (String, i32) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let open = || -> OwnedFd {
        let path = std::path::PathBuf::from(name.to_str().unwrap());
        File::options().read(true).write(true).open(path).unwrap().into()
    };
    let mut command = stage.command(arguments);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    let mut process = command.stdout(Stdio::from(open())).stderr(Stdio::from(open())).spawn().unwrap();
    // The command holds copies of the terminal that would keep it open.
    drop(command);
    let mut seen = Vec::new();
    // Reading a terminal without users ends with an error.
    let _ = File::from(master).read_to_end(&mut seen);
    (String::from_utf8_lossy(&seen).into_owned(), process.wait().unwrap().code().unwrap())
}

#[test]
fn progress_bar_is_cleared_before_result() {
    let stage = Stage::new();
    let slow = ["call", "slow", r#"{"key":"k","steps":4,"stepMs":30}"#, "--", MENDLINE, "demo-server"];
    let (seen, code) = on_a_terminal(&stage, &slow);
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("█") && seen.contains("50 %"), "{seen:?}");
    assert!(seen.ends_with("\r\u{1b}[Kk is done\r\n"), "{seen:?}");
}

#[test]
fn server_text_is_escaped_on_terminal() {
    let stage = Stage::new();
    let echo = ["call", "lookup", r#"{"key":"\u001b[2J\u202e"}"#, "--", MENDLINE, "demo-server"];
    let (seen, code) = on_a_terminal(&stage, &echo);
    assert_eq!(code, 0, "{seen}");
    assert_eq!(seen, "\\u{1b}[2J\\u{202e} is 42\r\n");
}

#[test]
fn doctor_colors_its_symbols() {
    let (seen, code) = on_a_terminal(&Stage::new(), &["doctor", "--", MENDLINE, "demo-server"]);
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("\u{1b}[32m✓\u{1b}[0m"), "{seen:?}");
}
