//! Background work that may block forever, and a bounded wait for its end.
//!
//! A full pipe or a hanging disk must not keep the process from exiting. A busy machine must not lose its final writes.
//! So a worker marks each operation that may block ([`Worker::risk`]). The wait for its end gives up only when one such
//! operation takes longer than [`STALL_LIMIT`], or the whole wait longer than [`TOTAL_LIMIT`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The longest time that the wait allows for one blocking operation.
const STALL_LIMIT: Duration = Duration::from_millis(500);

/// The longest time that the wait takes in total.
const TOTAL_LIMIT: Duration = Duration::from_secs(10);

/// A handle to work on another thread.
pub(crate) struct Work {
    steps: Arc<AtomicU64>,
    /// Nothing is sent: the channel disconnects when the worker is dropped.
    ended: Receiver<()>,
}

/// The thread's side of [`Work`]. Dropping it marks the work as done.
pub(crate) struct Worker {
    /// Odd during an operation that may block.
    steps: Arc<AtomicU64>,
    _ends: SyncSender<()>,
}

impl Work {
    /// Creates the two sides of a piece of work.
    pub(crate) fn new() -> (Work, Worker) {
        let steps = Arc::new(AtomicU64::new(0));
        let (ends, ended) = sync_channel(0);
        (Work { steps: Arc::clone(&steps), ended }, Worker { steps, _ends: ends })
    }

    /// Waits until the work is done or has stalled.
    pub(crate) fn wait(&self) {
        self.wait_for(STALL_LIMIT);
    }

    fn wait_for(&self, stall_limit: Duration) {
        let begin = Instant::now();
        let mut seen = self.steps.load(Ordering::Relaxed);
        while self.ended.recv_timeout(stall_limit) == Err(RecvTimeoutError::Timeout) {
            let before = std::mem::replace(&mut seen, self.steps.load(Ordering::Relaxed));
            let is_stalled = seen == before && seen % 2 == 1;
            if is_stalled || begin.elapsed() > TOTAL_LIMIT {
                return;
            }
        }
    }
}

impl Worker {
    /// Runs an operation that may block.
    pub(crate) fn risk<T>(&self, work: impl FnOnce() -> T) -> T {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let done = work();
        self.steps.fetch_add(1, Ordering::Relaxed);
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const SHORT: Duration = Duration::from_millis(10);

    #[test]
    fn slow_work_is_waited_for() {
        let (work, worker) = Work::new();
        let done = Arc::new(AtomicBool::new(false));
        let finished = Arc::clone(&done);
        thread::spawn(move || {
            for _ in 0..20 {
                thread::sleep(SHORT);
                worker.risk(|| {});
            }
            finished.store(true, Ordering::Relaxed);
        });
        work.wait_for(SHORT);
        assert!(done.load(Ordering::Relaxed));
    }

    #[test]
    fn stalled_work_is_not_waited_for() {
        let (work, worker) = Work::new();
        let (release, held) = channel::<()>();
        let (began, begun) = channel();
        thread::spawn(move || {
            worker.risk(|| {
                began.send(()).unwrap();
                held.recv()
            })
        });
        begun.recv().unwrap();
        work.wait_for(SHORT);
        assert!(work.ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty), "the worker still runs");
        drop(release);
        work.wait();
    }

    #[test]
    fn work_of_a_dropped_worker_is_done() {
        let (work, worker) = Work::new();
        drop(worker);
        work.wait_for(Duration::MAX);
    }
}
