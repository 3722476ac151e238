//! Other processes: their names, parents, states and memory, and signals to them.
//!
//! The facts come from `/proc`; without it they are unknown.

use std::collections::BTreeMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process};

pub use super::raw::ignore_termination_signals;

/// The path of the running program, valid even after its file was replaced.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs or waits.
    Alive,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// It has ended and is not reaped.
    Ended,
}

/// A row of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its resident memory; shared pages count for every process.
    pub bytes: u64,
}

/// Returns all processes.
pub fn table() -> BTreeMap<u32, Process> {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let Stat { parent, group, pages, .. } = Stat::of(pid)?;
        Some((pid, Process { parent, group, bytes: pages * page }))
    })
    .collect()
}

/// Returns the resident memory of this process.
pub(crate) fn own_memory() -> Option<u64> {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    Some(Stat::of(std::process::id())?.pages * page)
}

/// Returns the parent of this process; `None` if it is outside of our container.
pub(crate) fn own_parent() -> Option<u32> {
    rustix::process::getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
}

/// Returns the parent of a process.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    Stat::of(pid).map(|stat| stat.parent)
}

/// Returns the words of the command line of a process.
pub(crate) fn command_line(pid: u32) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Returns the state of a process; `None` if there is none.
pub fn state(pid: u32) -> Option<State> {
    Some(match Stat::of(pid)?.state {
        'T' | 't' => State::Stopped,
        'Z' | 'X' => State::Ended,
        _ => State::Alive,
    })
}

/// Returns whether a process runs the same program as this one, by its name.
pub fn runs_this_program(pid: u32) -> bool {
    let name = |process: &str| fs::read_to_string(format!("/proc/{process}/comm")).ok();
    name(&pid.to_string()).is_some_and(|other| Some(other) == name("self"))
}

/// Returns whether a process of our session is above our process group: the shell that could continue it.
pub fn has_shell() -> bool {
    let Some(ours) = Stat::of("self") else { return false };
    let mut above = ours.parent;
    while let Some(stat) = Stat::of(above) {
        if stat.group != ours.group {
            return stat.session == ours.session;
        }
        above = stat.parent;
    }
    false
}

/// Returns whether there is no process with this id.
pub(crate) fn is_gone(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// Asks a process to end. Returns whether the signal was sent.
pub fn terminate(pid: u32) -> bool {
    signal(pid, Signal::TERM)
}

/// Ends a process at once. Returns whether the signal was sent.
pub fn kill(pid: u32) -> bool {
    signal(pid, Signal::KILL)
}

/// Ends this process like a crash: at once, without flushing anything.
pub fn crash() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}

fn signal(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// The fields of `/proc/PID/stat` that are used. A process outside of our container has the id zero, which the system
/// calls of [rustix] cannot return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    group: u32,
    session: u32,
    pages: u64,
}

impl Stat {
    fn of(process: impl std::fmt::Display) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// Parses the line. The name of the command is in parentheses and may contain anything.
    fn parse(line: &str) -> Option<Stat> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Stat {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            pages: fields.get(21)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_is_parsed_whatever_the_command_name() {
        let line = "42 (a) b (c)) S 7 41 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 250 1844";
        let expected = Stat { state: 'S', parent: 7, group: 41, session: 40, pages: 250 };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse("42 (sh"), None);
    }
}
