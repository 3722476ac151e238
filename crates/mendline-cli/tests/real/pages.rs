//! Completions and manual pages, checked by the shells and by `man`. A program that is not installed is skipped.

use std::fs;
use std::process::{Command, Output};

use crate::support::MENDLINE;
use crate::usage::commands;

fn output_of_mendline(arguments: &[&str]) -> String {
    let output = Command::new(MENDLINE).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program, or returns nothing if it is not installed.
fn run_if_installed(program: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").output().ok()
}

#[test]
fn shells_accept_their_completions() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, option) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = output_of_mendline(&["completions", shell]);
        assert!(!script.contains("demo-server"), "{shell}: what is hidden is not offered");
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
        let path = folder.path().join(shell);
        fs::write(&path, script).unwrap();
        if let Some(output) = run_if_installed(shell, &[option, path.to_str().unwrap()]) {
            assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
        }
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let script = output_of_mendline(&["completions", "bash"]);
    for (words, expected) in [("mendline unw", "unwrap"), ("mendline run --call-t", "--call-timeout")] {
        let last = words.split(' ').count() - 1;
        let ask =
            format!("COMP_WORDS=({words})\nCOMP_CWORD={last}\n_mendline mendline \"${{COMP_WORDS[{last}]}}\" \"\"\n");
        let ask = format!("{script}\n{ask}printf '%s\\n' \"${{COMPREPLY[@]}}\"\n");
        let Some(output) = run_if_installed("bash", &["-c", &ask]) else { return };
        let offered = String::from_utf8(output.stdout).unwrap();
        assert_eq!(offered.trim(), expected, "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn manual_page_of_every_command_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("deep/man1");
    output_of_mendline(&["man", "--output", pages.to_str().unwrap()]);
    let mut expected: Vec<_> = commands().iter().map(|command| format!("mendline-{command}.1")).collect();
    expected.push("mendline.1".to_owned());
    expected.sort();
    let mut written: Vec<_> = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()).collect();
    written.sort();
    let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, expected);
    for page in written {
        let Some(output) = run_if_installed("man", &["--warnings", "-P", "cat", "-l", page.to_str().unwrap()]) else {
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{page:?}: {output:?}");
        assert!(text.contains("NAME") && text.contains("mendline"), "{text}");
    }
}

#[test]
fn unwritable_manual_page_is_reported() {
    let output = Command::new(MENDLINE).args(["man", "--output", "/dev/null/man1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: /dev/null/man1: "), "{output:?}");
}
