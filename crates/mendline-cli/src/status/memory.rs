//! Memory of the servers' processes.
//!
//! A server is often a launcher with the real server below it, so the memory of its process group and of all
//! descendants that left the group is added up. One pass over the process table serves all servers.

use std::collections::{BTreeMap, BTreeSet};

use mendline::os::processes::{Process, table};
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
    let bytes: u64 = belongs.iter().filter_map(|pid| processes.get(pid)).map(|process| process.bytes).sum();
    Some(Memory { bytes, processes: u32::try_from(belongs.len()).unwrap_or(u32::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_and_descendants_are_counted_and_others_not() {
        let process = |parent, group| Process { parent, group, bytes: 1 };
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
