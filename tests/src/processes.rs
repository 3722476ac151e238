//! The processes of this machine, for tests that end a process of another one.
//!
//! A process is found by its command line, which contains the path of a file that only this test uses.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the processes whose command line begins with these arguments.
pub fn with_command_line(arguments: &[&Path]) -> Vec<i32> {
    let begins = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut given = line.split(|byte| *byte == 0);
        arguments.iter().all(|word| given.next() == Some(word.as_os_str().as_encoded_bytes()))
    };
    all().filter(begins).filter(|pid| !is_gone(*pid)).collect()
}

/// Returns the children of a process.
pub fn children_of(parent: i32) -> Vec<i32> {
    all().filter(|pid| state(*pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// Returns true if a process has ended, even if it is not reaped yet.
pub fn is_gone(pid: i32) -> bool {
    state(pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

/// Returns true if every thread of a process has ended. The first thread of a killed process can end before the others,
/// which hold its pipes open.
pub fn has_ended(pid: i32) -> bool {
    threads_of(pid).all(is_gone)
}

/// Returns true if every thread of a process is stopped by a signal. A thread that waits in `read` can still take input
/// after the others have stopped.
pub fn is_stopped(pid: i32) -> bool {
    let mut threads = threads_of(pid).peekable();
    threads.peek().is_some() && threads.all(|thread| state(thread).is_some_and(|(state, _)| state == 'T'))
}

/// Waits for a condition. Returns false if it does not hold in time.
pub fn eventually(within: Duration, mut so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if so() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn threads_of(pid: i32) -> impl Iterator<Item = i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Returns the state and the parent from `/proc/PID/stat`.
fn state(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
