//! `mendline logs -f`.

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;

use crate::client::{eventually, kill, lines_of};
use crate::stage::{LATER, Stage, end};

/// A running `mendline logs -f` and its output.
struct Follower {
    process: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(stage: &Stage, arguments: &[&str]) -> Follower {
        let mut command = stage.command(&[&["logs", "-f"], arguments].concat());
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = lines_of(process.stdout.take().unwrap());
        Follower { process, lines }
    }

    fn until(&self, expected: &str) {
        let deadline = Instant::now() + LATER;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no {expected:?}"));
            if line.contains(expected) {
                return;
            }
        }
    }

    fn code(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("it ends", LATER, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn follow_shows_new_processes_and_ends_cleanly() {
    let stage = Stage::new();
    let mut follower = Follower::start(&stage, &[]);
    for _ in 0..2 {
        let mut client = stage.bridge(&[], &["stderr-flood=1"]);
        follower.until("ready after");
        client.result("a", "lookup", &json!({ "key": "a" }));
        follower.until("| demo-server: call");
        end(client);
        follower.until("stopped");
    }
    kill(i32::try_from(follower.process.id()).unwrap(), Signal::INT);
    assert_eq!(follower.code(), Some(0));
}

#[test]
fn follow_across_rotation_neither_loses_nor_repeats_lines() {
    let stage = Stage::new();
    let entry = json!({ "command": crate::client::MENDLINE, "args": ["demo-server", "--fault", "stderr-flood=500"] });
    std::fs::create_dir_all(stage.path("config/mendline")).unwrap();
    let file = json!({ "mcpServers": { "notes": entry }, "mendline": { "logs": { "fileBytes": 65_536 } } });
    std::fs::write(stage.path("config/mendline/config.json"), file.to_string()).unwrap();
    let mut follower = Follower::start(&stage, &["notes", "--grep", "of a flood"]);
    let mut client = stage.client(&["run", "notes"]);
    client.initialize();
    for id in 0..4 {
        client.result(&id.to_string(), "lookup", &json!({ "key": "a" }));
    }
    end(client);
    let deadline = Instant::now() + LATER;
    let mut seen = Vec::new();
    while seen.len() < 2000 {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = follower.lines.recv_timeout(left).unwrap_or_else(|_| panic!("only {} lines", seen.len()));
        seen.push(line.split_once("demo-server: ").unwrap().1.to_owned());
    }
    let expected: Vec<String> = (1..=4)
        .flat_map(|call| (0..500).map(move |line| format!("call {call}, line {line} of a flood on stderr")))
        .collect();
    assert_eq!(seen, expected);
    assert!(stage.files().len() > 2);
    kill(i32::try_from(follower.process.id()).unwrap(), Signal::TERM);
    assert_eq!(follower.code(), Some(0));
}

#[test]
fn closed_pipe_of_reader_is_not_an_error() {
    let stage = Stage::new();
    let text: String =
        (0..20_000).map(|at| crate::stage::line(at, "notes", 1, "info", "a line like any other")).collect();
    stage.put("notes", 1, 1, &text);
    let mut command = stage.command(&["logs", "-n", "all"]);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 100];
    process.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0));
    // A follower that waits for more lines notices that its reader is gone.
    let mut command = stage.command(&["logs", "-f", "--since", "1ms"]);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    let mut status = None;
    eventually("it ends", LATER, || {
        status = process.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}
