//! Work in the background that may be held up for ever, and its end.
//!
//! A pipe that nobody reads and a disk that hangs must not keep a process from ending. A machine that has too much to do must
//! not cost it its final writes. So a worker says when it does what may be held up ([`Worker::risk`]), and whoever waits for its
//! end gives up only when one such piece of work has taken the whole of [`STALL_LIMIT`], or all of it [`TOTAL_LIMIT`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long one piece of work may take at the end.
const STALL_LIMIT: Duration = Duration::from_millis(500);

/// How long all of it may take, whatever it is.
const TOTAL_LIMIT: Duration = Duration::from_secs(10);

/// Work that goes on elsewhere.
pub(crate) struct Work {
    steps: Arc<AtomicU64>,
    /// Nothing is ever sent: it ends when the worker does.
    ended: Receiver<()>,
}

/// Who does it. When this is dropped, the work is done.
pub(crate) struct Worker {
    /// Odd while something may be held up.
    steps: Arc<AtomicU64>,
    _ends: SyncSender<()>,
}

impl Work {
    /// Work, and the one who is to do it.
    pub(crate) fn new() -> (Work, Worker) {
        let steps = Arc::new(AtomicU64::new(0));
        let (ends, ended) = sync_channel(0);
        (Work { steps: Arc::clone(&steps), ended }, Worker { steps, _ends: ends })
    }

    /// Waits until it is done, or does not get on.
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
    /// Does what may be held up.
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
        assert!(work.ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty), "it is still at work");
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
