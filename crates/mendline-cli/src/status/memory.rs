//! Memory of the servers' processes.
//!
//! A server is often a launcher with the real server below it, so the memory of its process group and of all
//! descendants that left the group is added up. One pass over `/proc` serves all servers; without `/proc` the memory is
//! unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Serialize;

/// Memory of a server and of all processes that it has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Memory {
    /// Resident memory; shared pages count for every process.
    pub(crate) bytes: u64,
    /// Number of processes.
    pub(crate) processes: u32,
}

/// A row of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    group: u32,
    pages: u64,
}

/// Returns the memory of the process groups that these children lead.
pub(crate) fn of_groups(children: &[u32]) -> BTreeMap<u32, Memory> {
    if children.is_empty() {
        return BTreeMap::new();
    }
    let processes = table();
    children.iter().filter_map(|child| Some((*child, sum(*child, &processes)?))).collect()
}

fn sum(child: u32, processes: &BTreeMap<u32, Process>) -> Option<Memory> {
    processes.get(&child)?;
    let mut belongs: BTreeSet<u32> = BTreeSet::from([child]);
    belongs.extend(processes.iter().filter(|(_, process)| process.group == child).map(|(pid, _)| *pid));
    // Children of a counted process count, too. Each pass finds a generation, so this ends.
    loop {
        let further = |(pid, process): &(&u32, &Process)| belongs.contains(&process.parent) && !belongs.contains(pid);
        let further: Vec<u32> = processes.iter().filter(further).map(|(pid, _)| *pid).collect();
        if further.is_empty() {
            break;
        }
        belongs.extend(further);
    }
    let pages: u64 = belongs.iter().filter_map(|pid| processes.get(pid)).map(|process| process.pages).sum();
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    Some(Memory { bytes: pages * page, processes: u32::try_from(belongs.len()).unwrap_or(u32::MAX) })
}

fn table() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// Parses a line of `/proc/PID/stat`. The name of the command is in parentheses and may contain anything.
fn parse(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        pages: fields.get(21)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_is_parsed_whatever_the_command_name() {
        let line = "42 (a) b (c)) S 7 41 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 250 1844";
        assert_eq!(parse(line), Some(Process { parent: 7, group: 41, pages: 250 }));
        assert_eq!(parse("42 (sh"), None);
    }

    #[test]
    fn group_and_descendants_are_counted_and_others_not() {
        let process = |parent, group| Process { parent, group, pages: 1 };
        let processes = BTreeMap::from([
            (10, process(1, 10)),
            (11, process(10, 10)),
            // The parent has ended; the group still exists.
            (12, process(1, 10)),
            // The process has its own group, and so has its child.
            (13, process(11, 13)),
            (14, process(13, 14)),
            (99, process(1, 99)),
        ]);
        assert_eq!(sum(10, &processes).unwrap().processes, 5);
        assert_eq!(sum(7, &processes), None);
    }

    #[test]
    fn memory_of_this_process_is_known() {
        let own = std::process::id();
        assert!(of_groups(&[own])[&own].bytes > 100 * 1024);
    }
}
