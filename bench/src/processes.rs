//! The processes between the client and the upstream, and their costs.
//!
//! A contender includes its helper processes: all descendants of this process count, except the upstream itself. This
//! process adopts orphans (see [`adopt_orphans`]), so that a helper that detaches from its parent is still a
//! descendant. The upstream is identified by its executable, which works behind any number of wrappers and for proxies
//! that rewrite messages.
//!
//! CPU time is read from `schedstat` in nanoseconds; the ticks of `stat` are too coarse. It is exact only while a
//! process sleeps, so it is read when no call is in flight. The time of a thread that ended in between is lost.

use std::fs;
use std::io;
use std::time::Duration;

/// The processes of one contender. Costs refer to the middle only.
pub(crate) struct Processes {
    middle: Vec<u32>,
    upstream: Vec<u32>,
}

/// The memory of the processes in KiB.
pub(crate) struct Memory {
    /// Pages that no other process has mapped, including those of the program file.
    pub(crate) private: u64,
    /// Private pages that were written: heap, stacks and relocated data.
    pub(crate) written: u64,
    /// The proportional set size.
    pub(crate) pss: u64,
    /// The sum of the peak resident set sizes, including shared pages.
    pub(crate) peak: u64,
}

/// Makes this process the parent of every descendant whose own parent has ended.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Returns all living descendants.
pub(crate) fn descendants() -> io::Result<Vec<u32>> {
    let mut alive = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // The process has ended since the directory was read.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(parent) = living_parent(&stat) {
            alive.push((pid, parent));
        }
    }
    let mut family = vec![std::process::id()];
    // Each process is found once, so the loop ends.
    let mut next = 0;
    while next < family.len() {
        let parent = family[next];
        family.extend(alive.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family.remove(0);
    Ok(family)
}

impl Processes {
    /// Returns the processes that were started since `before`.
    pub(crate) fn since(before: &[u32]) -> io::Result<Self> {
        let ours = std::env::current_exe()?;
        let is_upstream = |pid: &u32| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == ours)
                && fs::read(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"upstream"))
        };
        let come = descendants()?.into_iter().filter(|pid| !before.contains(pid));
        let (upstream, middle) = come.partition(is_upstream);
        Ok(Self { middle, upstream })
    }

    /// Returns processes without a middle.
    pub(crate) fn with_upstream(upstream: Vec<u32>) -> Self {
        Self { middle: Vec::new(), upstream }
    }

    /// Returns one process as the middle.
    pub(crate) fn with_middle(middle: u32) -> Self {
        Self { middle: vec![middle], upstream: Vec::new() }
    }

    pub(crate) fn middle(&self) -> &[u32] {
        &self.middle
    }

    pub(crate) fn upstream(&self) -> &[u32] {
        &self.upstream
    }

    /// Returns the CPU time so far.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        let mut total = Duration::ZERO;
        for pid in &self.middle {
            for task in fs::read_dir(format!("/proc/{pid}/task"))? {
                if let Ok(schedstat) = fs::read_to_string(task?.path().join("schedstat")) {
                    total +=
                        time_on_cpu(&schedstat).ok_or_else(|| io::Error::other("schedstat is not three numbers"))?;
                }
            }
        }
        Ok(total)
    }

    pub(crate) fn memory(&self) -> io::Result<Memory> {
        let mut total = Memory { private: 0, written: 0, pss: 0, peak: 0 };
        for pid in &self.middle {
            let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
            let written = kib(&rollup, "Private_Dirty:").unwrap_or(0);
            total.written += written;
            total.private += written + kib(&rollup, "Private_Clean:").unwrap_or(0);
            total.pss += kib(&rollup, "Pss:").unwrap_or(0);
            total.peak += kib(&fs::read_to_string(format!("/proc/{pid}/status"))?, "VmHWM:").unwrap_or(0);
        }
        Ok(total)
    }
}

/// Returns the parent in a `stat` line, unless the process is a zombie.
fn living_parent(stat: &str) -> Option<u32> {
    // The command name is in parentheses and may contain parentheses and blanks.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

/// The fields of `schedstat`: nanoseconds on a processor, nanoseconds waiting for one, number of time slices.
fn time_on_cpu(schedstat: &str) -> Option<Duration> {
    let mut fields = schedstat.split_ascii_whitespace();
    let on_cpu = fields.next()?.parse().ok()?;
    (fields.count() == 2).then_some(Duration::from_nanos(on_cpu))
}

fn kib(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_found_after_any_command_name() {
        assert_eq!(living_parent("42 (cat) S 17 42 42 0"), Some(17));
        assert_eq!(living_parent("42 (a) R 1 (b) S 17 42 42 0"), Some(17));
        assert_eq!(living_parent("42 (cat"), None);
    }

    #[test]
    fn zombie_has_no_living_parent() {
        assert_eq!(living_parent("42 (cat) Z 17 42 42 0"), None);
    }

    #[test]
    fn cpu_time_is_the_first_of_three_numbers() {
        assert_eq!(time_on_cpu("1320602 2354901 3\n"), Some(Duration::from_nanos(1_320_602)));
        assert_eq!(time_on_cpu("1320602 2354901"), None);
        assert_eq!(time_on_cpu(""), None);
    }

    #[test]
    fn memory_is_read_from_the_named_line() {
        let rollup = "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:    1864 kB\nPss:     154 kB\nPss_Dirty:   88 kB\nPrivate_Clean:   12 kB\n";
        assert_eq!(kib(rollup, "Private_Clean:"), Some(12));
        assert_eq!(kib(rollup, "Pss:"), Some(154));
        assert_eq!(kib(rollup, "Swap:"), None);
    }

    #[test]
    fn child_is_listed_until_it_is_dead() {
        let before = descendants().unwrap();
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(Processes::since(&before).unwrap().middle.contains(&child.id()));
        assert!(Processes { middle: vec![child.id()], upstream: Vec::new() }.memory().unwrap().private > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants().unwrap().contains(&child.id()));
    }
}
