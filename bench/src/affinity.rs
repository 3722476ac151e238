//! CPU affinity of all processes in a run.
//!
//! A run uses two processors by default, so that figures of different machines can be compared. The bench, not the
//! scheduler, decides where client, middle and upstream run: a message that wakes another processor takes ten times as
//! long as one that does not, and without fixed affinity the same relay measured between 0.06 and 7.9 times itself.
//!
//! The middle has its own processor, and both ends share the other one. Every message then crosses processors twice, as
//! on a machine with free processors, and throughput is the limit of the middle. A part of the run is repeated with all
//! processes on one processor, where no other processor has to be woken and only the work counts.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of a run.
pub(crate) struct Affinity {
    first: CpuSet,
    /// All but the first; the first again if there is only one.
    others: CpuSet,
}

/// The placement of the processes. The client always runs on the first processor.
#[derive(Clone, Copy)]
pub(crate) enum Placement {
    /// The middle runs apart from both ends.
    Apart,
    /// All run on the first processor.
    Together,
}

impl Affinity {
    /// Uses the first `cores` of the allowed processors. New processes inherit them until they are placed.
    pub(crate) fn take(cores: usize) -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let [mut all, mut first, mut others] = [CpuSet::new(), CpuSet::new(), CpuSet::new()];
        for (index, cpu) in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(cores).enumerate() {
            all.set(cpu);
            if index == 0 { first.set(cpu) } else { others.set(cpu) }
        }
        sched_setaffinity(None, &all)?;
        Ok(Self { first, others: if others.count() == 0 { first } else { others } })
    }

    /// Places this process, the middle and the upstream.
    pub(crate) fn place(&self, placement: Placement, middle: &[u32], upstream: &[u32]) -> io::Result<()> {
        sched_setaffinity(None, &self.first)?;
        move_to(&self.first, upstream)?;
        move_to(
            match placement {
                Placement::Apart => &self.others,
                Placement::Together => &self.first,
            },
            middle,
        )
    }
}

fn move_to(cpus: &CpuSet, pids: &[u32]) -> io::Result<()> {
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let Some(thread) = task?.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?)) else {
                continue;
            };
            match sched_setaffinity(Some(thread), cpus) {
                // The thread has just ended.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn idle_child() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    fn affinity_of(child: &Child) -> CpuSet {
        sched_getaffinity(Pid::from_raw(child.id() as i32)).unwrap()
    }

    #[test]
    fn middle_runs_apart_or_together_as_placed() {
        let affinity = Affinity::take(2).unwrap();
        let mut children = [idle_child(), idle_child()];
        let [middle, upstream] = &children;
        let placed = [Placement::Apart, Placement::Together].map(|placement| {
            affinity.place(placement, &[middle.id()], &[upstream.id()]).unwrap();
            (affinity_of(middle), affinity_of(upstream), sched_getaffinity(None).unwrap())
        });
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(placed[0] == (affinity.others, affinity.first, affinity.first), "apart");
        assert!(placed[1] == (affinity.first, affinity.first, affinity.first), "together");
    }

    #[test]
    fn single_processor_is_used_for_all() {
        let affinity = Affinity::take(1).unwrap();
        assert!(affinity.first == affinity.others);
        assert_eq!(affinity.first.count(), 1);
    }
}
