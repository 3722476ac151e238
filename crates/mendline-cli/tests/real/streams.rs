//! Kinds of stdin and stdout: sockets, files, and a reader that never reads.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{MENDLINE, SOON, eventually, kill, lines_of};

fn bridge_command() -> Command {
    let mut command = Command::new(MENDLINE);
    command
        .args(["run", "--log-level", "off", "--no-log-files", "--no-catalogue", "--", MENDLINE, "demo-server"])
        .stderr(Stdio::null());
    command
}

fn request(id: u32, bytes: usize) -> String {
    let params = json!({ "name": "big", "arguments": { "key": "k", "bytes": bytes } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string() + "\n"
}

#[test]
fn socket_pairs_work_as_stdio_and_keep_their_flags() {
    let (mut to_us, our_stdin) = UnixStream::pair().unwrap();
    let (from_us, our_stdout) = UnixStream::pair().unwrap();
    // Other processes share the open file, so it must not become non-blocking.
    let shared = [our_stdin.try_clone().unwrap(), our_stdout.try_clone().unwrap()];
    let mut process = bridge_command()
        .stdin(Stdio::from(OwnedFd::from(our_stdin)))
        .stdout(Stdio::from(OwnedFd::from(our_stdout)))
        .spawn()
        .unwrap();
    let lines = lines_of(from_us);
    for (id, bytes) in [(1, 10), (2, 3 << 20), (3, 100)] {
        to_us.write_all(request(id, bytes).as_bytes()).unwrap();
        let answer: Value = serde_json::from_str(&lines.recv_timeout(SOON).unwrap()).unwrap();
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"]["content"][0]["text"].as_str().unwrap().len(), bytes);
    }
    for end in &shared {
        assert!(!rustix::fs::fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK));
    }
    drop(shared);
    drop(to_us);
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn pipes_keep_their_flags() {
    let (our_stdin, to_us) = std::io::pipe().unwrap();
    let (from_us, our_stdout) = std::io::pipe().unwrap();
    let shared = (our_stdin.try_clone().unwrap(), our_stdout.try_clone().unwrap());
    let mut process = bridge_command().stdin(our_stdin).stdout(our_stdout).spawn().unwrap();
    let lines = lines_of(from_us);
    let mut to_us = to_us;
    to_us.write_all(request(1, 10).as_bytes()).unwrap();
    lines.recv_timeout(SOON).unwrap();
    assert!(!rustix::fs::fcntl_getfl(&shared.0).unwrap().contains(OFlags::NONBLOCK));
    assert!(!rustix::fs::fcntl_getfl(&shared.1).unwrap().contains(OFlags::NONBLOCK));
    drop(shared);
    drop(to_us);
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn files_work_as_stdin_and_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::write(&input, request(1, 10) + &request(2, 20)).unwrap();
    let mut answers = File::options().create(true).truncate(true).read(true).write(true).open(&output).unwrap();
    let status =
        bridge_command().stdin(File::open(&input).unwrap()).stdout(answers.try_clone().unwrap()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    let mut text = String::new();
    answers.seek(SeekFrom::Start(0)).unwrap();
    answers.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn last_line_without_newline_is_read() {
    let (our_stdin, mut to_us) = std::io::pipe().unwrap();
    let mut process = bridge_command().stdin(our_stdin).stdout(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(process.stdout.take().unwrap());
    to_us.write_all(request(1, 10).trim_end().as_bytes()).unwrap();
    drop(to_us);
    assert!(lines.recv_timeout(SOON).unwrap().contains("xxxxxxxxxx"));
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn x99_stdout_without_reader_counts_as_client_exit() {
    let (from_us, our_stdout) = std::io::pipe().unwrap();
    let (our_stdin, mut to_us) = std::io::pipe().unwrap();
    drop(from_us);
    let mut process = bridge_command().stdin(our_stdin).stdout(our_stdout).spawn().unwrap();
    to_us.write_all(request(1, 10).as_bytes()).unwrap();
    eventually("it ends although its stdin is open", SOON, || process.try_wait().unwrap().is_some());
}

#[test]
fn l83_client_that_never_reads_blocks_neither_memory_nor_exit() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let (from_us, our_stdout) = std::io::pipe().unwrap();
    let (our_stdin, mut to_us) = std::io::pipe().unwrap();
    let mut command = bridge_command();
    let mut process = command.env("MENDLINE_DEMO_LEDGER", &ledger).stdin(our_stdin).stdout(our_stdout).spawn().unwrap();
    let calls = 100;
    for id in 0..calls {
        to_us.write_all(request(id, 4 << 20).as_bytes()).unwrap();
    }
    // 400 MiB of answers were requested. The server runs until its stdout is full, so the test waits until the ledger
    // stops growing.
    let mut progress = (0, Instant::now());
    eventually("the server is held up", 2 * SOON, || {
        let length = std::fs::metadata(&ledger).map_or(0, |ledger| ledger.len());
        if length > progress.0 {
            progress = (length, Instant::now());
        }
        length > 0 && progress.1.elapsed() > Duration::from_millis(300)
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(peak.unwrap() < 300 * 1024, "{peak:?} kB for unread answers");
    let pid = i32::try_from(process.id()).unwrap();
    eventually("it ends all the same", SOON, || {
        // More than once, because two pending signals count as one.
        kill(pid, Signal::TERM);
        process.try_wait().unwrap().is_some()
    });
    drop((from_us, to_us));
}
