//! Which processors everything runs on.
//!
//! Two, by default, whatever the machine has: a proxy that shares them with its client and its server is the common case on
//! a user's machine, and figures from sixteen would not be comparable. Who of the three runs where is the scheduler's
//! choice, and a message that has to wake up another processor takes ten times as long as one that does not. So a part of
//! the run is repeated on a single processor, where that choice does not exist and only the work counts.

use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of a run.
pub(crate) struct Seats {
    all: CpuSet,
    first: CpuSet,
}

impl Seats {
    /// Takes the first `cores` of those that we may use; what we start from now on stays there as well.
    pub(crate) fn take(cores: usize) -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let [mut all, mut first] = [CpuSet::new(), CpuSet::new()];
        for (seat, cpu) in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(cores).enumerate() {
            all.set(cpu);
            if seat == 0 {
                first.set(cpu);
            }
        }
        sched_setaffinity(None, &all)?;
        Ok(Self { all, first })
    }

    /// Does something while we and these processes are together on one processor.
    pub(crate) fn on_one<T>(&self, pids: &[u32], mut doing: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        move_to(&self.first, pids)?;
        let done = doing();
        move_to(&self.all, pids)?;
        done
    }
}

fn move_to(cpus: &CpuSet, pids: &[u32]) -> io::Result<()> {
    sched_setaffinity(None, cpus)?;
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = task?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            // A thread that has just ended needs no seat.
            match sched_setaffinity(thread, cpus) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_shared_for_a_while_and_all_are_given_back() {
        let seats = Seats::take(2).unwrap();
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let processors = || sched_getaffinity(Pid::from_raw(child.id() as i32)).map(|cpus| cpus.count());
        let during = seats.on_one(&[child.id()], || Ok((processors()?, sched_getaffinity(None)?.count()))).unwrap();
        let after = processors().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(during, (1, 1));
        assert_eq!(after, seats.all.count());
    }
}
