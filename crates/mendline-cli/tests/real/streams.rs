//! The kinds of things that a client may give us as stdin and stdout: sockets, files, a reader that never reads.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Bridge, MENDLINE, SOON, eventually, is_gone, lines_of};

fn bridge_command() -> Command {
    let mut command = Command::new(MENDLINE);
    command.args(["run", "--log-level", "off", "--", MENDLINE, "demo-server"]).stderr(Stdio::null());
    command
}

fn request(id: u32, bytes: usize) -> String {
    let params = json!({ "name": "big", "arguments": { "key": "k", "bytes": bytes } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string() + "\n"
}

#[test]
fn socket_pairs_serve_as_stdin_and_stdout_and_stay_as_they_were() {
    let (mut to_us, our_stdin) = UnixStream::pair().unwrap();
    let (from_us, our_stdout) = UnixStream::pair().unwrap();
    // What is shared with others: the same open file, which must not become non-blocking under their feet.
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
fn pipes_stay_as_they_were() {
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
fn files_serve_as_stdin_and_stdout() {
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
fn a_last_line_without_its_end_is_still_a_line() {
    let (our_stdin, mut to_us) = std::io::pipe().unwrap();
    let mut process = bridge_command().stdin(our_stdin).stdout(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(process.stdout.take().unwrap());
    to_us.write_all(request(1, 10).trim_end().as_bytes()).unwrap();
    drop(to_us);
    assert!(lines.recv_timeout(SOON).unwrap().contains("xxxxxxxxxx"));
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

#[test]
fn l83_a_client_that_never_reads_holds_up_neither_memory_nor_the_end() {
    let mut bridge = Bridge::around(&[]);
    // The pipe of a client that reads nothing: the test holds it without a reader of its own.
    let (from_us, our_stdout) = std::io::pipe().unwrap();
    let (our_stdin, mut to_us) = std::io::pipe().unwrap();
    let mut process = bridge_command().stdin(our_stdin).stdout(our_stdout).spawn().unwrap();
    for id in 0..64 {
        to_us.write_all(request(id, 4 << 20).as_bytes()).unwrap();
    }
    // The other bridge goes on as if nothing were.
    assert_eq!(bridge.result("a", "lookup", &json!({ "key": "k" }))["isError"], false);
    let status = format!("/proc/{}/status", process.id());
    let mut highest = 0;
    eventually("memory stops growing", SOON, || {
        let text = std::fs::read_to_string(&status).unwrap();
        let peak =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let grew = peak.unwrap() > highest;
        highest = peak.unwrap();
        std::thread::sleep(Duration::from_millis(100));
        !grew
    });
    assert!(highest < 300 * 1024, "{highest} kB for answers that nobody reads");
    let pid = i32::try_from(process.id()).unwrap();
    for _ in 0..2 {
        crate::support::kill(pid, Signal::TERM);
        std::thread::sleep(Duration::from_millis(50));
    }
    eventually("it ends all the same", SOON, || is_gone(pid));
    process.wait().unwrap();
    drop((from_us, to_us));
}
