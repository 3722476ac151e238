//! The ready queue: which connections, dials and exchanges to poll.
//!
//! One upstream has many of them, and all are polled in one place. Each has a waker. Waking it puts its key into the
//! queue, and only queued keys are polled. A wake while the queue is not being polled wakes the driver's task.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// The queue of one upstream; `K` identifies the owner of a waker.
pub(super) struct ReadyQueue<K>(Arc<Shared<K>>);

struct Shared<K>(Mutex<Ready<K>>);

struct Ready<K> {
    queue: VecDeque<Arc<ReadyWaker<K>>>,
    /// The waker of the driver's task while it waits.
    task: Option<Waker>,
}

/// One waker. It is in the queue at most once.
pub(super) struct ReadyWaker<K> {
    key: K,
    ready: AtomicBool,
    shared: Arc<Shared<K>>,
}

/// A waker that tells whether it is queued.
pub(super) struct ObservedWaker<K> {
    waker: Waker,
    ready: Arc<ReadyWaker<K>>,
}

impl<K> ObservedWaker<K> {
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns whether it was woken and its owner has not been polled since. If not, a poll of the owner would find
    /// nothing new.
    pub(super) fn is_queued(&self) -> bool {
        self.ready.ready.load(Ordering::Acquire)
    }
}

impl<K: Copy + Send + Sync + 'static> ReadyQueue<K> {
    pub(super) fn new() -> ReadyQueue<K> {
        ReadyQueue(Arc::new(Shared(Mutex::new(Ready { queue: VecDeque::new(), task: None }))))
    }

    /// Creates a waker that is not queued.
    pub(super) fn waker(&self, key: K) -> Waker {
        Waker::from(self.new_waker(key))
    }

    /// Creates a waker that is queued already: a new owner is polled first.
    pub(super) fn ready_waker(&self, key: K) -> Waker {
        let waker = self.waker(key);
        waker.wake_by_ref();
        waker
    }

    /// Creates a waker that is queued already and whose owner can ask whether it is queued.
    pub(super) fn observed_waker(&self, key: K) -> ObservedWaker<K> {
        let ready = self.new_waker(key);
        ready.wake_by_ref();
        ObservedWaker { waker: Waker::from(Arc::clone(&ready)), ready }
    }

    fn new_waker(&self, key: K) -> Arc<ReadyWaker<K>> {
        Arc::new(ReadyWaker { key, ready: AtomicBool::new(false), shared: Arc::clone(&self.0) })
    }

    /// Marks the queue as being polled: a wake need not wake the task.
    pub(super) fn begin_poll(&self) {
        self.0.ready().task = None;
    }

    /// Takes the key of the waker that was woken first.
    pub(super) fn next(&self) -> Option<K> {
        let waker = self.0.ready().queue.pop_front()?;
        waker.ready.store(false, Ordering::Release);
        Some(waker.key)
    }

    /// Marks the queue as waiting. From now on a wake wakes the task; if a waker is queued already, the task is woken
    /// at once.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let mut ready = self.0.ready();
        if ready.queue.is_empty() {
            ready.task = Some(cx.waker().clone());
        } else {
            drop(ready);
            cx.waker().wake_by_ref();
        }
    }
}

/// A queued waker holds the queue, and the queue holds the waker. Emptying the queue breaks the cycle.
impl<K> Drop for ReadyQueue<K> {
    fn drop(&mut self) {
        let queued = std::mem::take(&mut self.0.ready().queue);
        drop(queued);
    }
}

impl<K> Shared<K> {
    fn ready(&self) -> MutexGuard<'_, Ready<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Send + Sync + 'static> Wake for ReadyWaker<K> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.ready.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut ready = self.shared.ready();
            ready.queue.push_back(Arc::clone(self));
            ready.task.take()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn dropped_queue_is_freed_with_its_last_waker() {
        let ready_queue = ReadyQueue::new();
        let shared = Arc::downgrade(&ready_queue.0);
        let waker = ready_queue.ready_waker(1);
        drop(ready_queue);
        assert!(shared.upgrade().is_some(), "the holder of the waker may wake it");
        drop(waker);
        assert!(shared.upgrade().is_none());
    }

    #[test]
    fn observed_waker_is_queued_until_its_key_is_taken() {
        let ready_queue = ReadyQueue::new();
        let observed = ready_queue.observed_waker(1);
        assert!(observed.is_queued(), "a new owner is polled first");
        assert_eq!(ready_queue.next(), Some(1));
        assert!(!observed.is_queued());
        observed.waker().wake_by_ref();
        assert!(observed.is_queued());
    }

    #[test]
    fn waker_is_queued_once_and_wakes_only_a_waiting_task() {
        let task = Arc::new(CountingWaker(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&task));
        let cx = Context::from_waker(&waker);
        let woken = || task.0.load(Ordering::Relaxed);
        let ready_queue = ReadyQueue::new();
        let first = ready_queue.waker(1);
        let second = ready_queue.ready_waker(2);
        first.wake_by_ref();
        assert_eq!((ready_queue.next(), ready_queue.next(), ready_queue.next()), (Some(2), Some(1), None));

        second.wake_by_ref();
        assert_eq!(woken(), 0, "no task waits");
        ready_queue.wait(&cx);
        assert_eq!(woken(), 1, "the waker was woken before the wait began");
        assert_eq!(ready_queue.next(), Some(2));
        ready_queue.wait(&cx);
        first.wake_by_ref();
        second.wake_by_ref();
        assert_eq!(woken(), 2);
        ready_queue.begin_poll();
        assert_eq!((ready_queue.next(), ready_queue.next(), ready_queue.next()), (Some(1), Some(2), None));
    }
}
