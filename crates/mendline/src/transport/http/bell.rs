//! Who wants to be polled?
//!
//! One upstream has many connections and exchanges, and all of them are polled in one place. Each has a bell; what it
//! waits for rings it, and only what rang is polled. A bell that rings while nobody is polling wakes the driver.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// The bells of one upstream; `K` says whose it is.
pub(super) struct Bells<K>(Arc<Tower<K>>);

struct Tower<K>(Mutex<Rung<K>>);

struct Rung<K> {
    queue: VecDeque<Arc<Bell<K>>>,
    /// The driver, while it is asleep.
    sleeper: Option<Waker>,
}

/// One bell. Rings at most once until it is heard.
pub(super) struct Bell<K> {
    key: K,
    rung: AtomicBool,
    tower: Arc<Tower<K>>,
}

impl<K: Copy + Send + Sync + 'static> Bells<K> {
    pub(super) fn new() -> Bells<K> {
        Bells(Arc::new(Tower(Mutex::new(Rung { queue: VecDeque::new(), sleeper: None }))))
    }

    /// A new bell, which has not rung yet.
    pub(super) fn hang(&self, key: K) -> Waker {
        Waker::from(Arc::new(Bell { key, rung: AtomicBool::new(false), tower: Arc::clone(&self.0) }))
    }

    /// A new bell, which has already rung: whoever is new is polled first.
    pub(super) fn hang_ringing(&self, key: K) -> Waker {
        let bell = self.hang(key);
        bell.wake_by_ref();
        bell
    }

    /// Somebody is polling: rings need not wake anybody.
    pub(super) fn attend(&self) {
        self.0.rung().sleeper = None;
    }

    /// Whose bell rang first.
    pub(super) fn next(&self) -> Option<K> {
        let bell = self.0.rung().queue.pop_front()?;
        bell.rung.store(false, Ordering::Release);
        Some(bell.key)
    }

    /// Nothing is left to do. From now on a ring wakes the driver; one that came just now does so at once.
    pub(super) fn rest(&self, cx: &Context<'_>) {
        let mut rung = self.0.rung();
        if rung.queue.is_empty() {
            rung.sleeper = Some(cx.waker().clone());
        } else {
            drop(rung);
            cx.waker().wake_by_ref();
        }
    }
}

/// A bell that nobody will hear any more would hold its tower, and the tower the bell.
impl<K> Drop for Bells<K> {
    fn drop(&mut self) {
        let unheard = std::mem::take(&mut self.0.rung().queue);
        drop(unheard);
    }
}

impl<K> Tower<K> {
    fn rung(&self) -> MutexGuard<'_, Rung<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Send + Sync + 'static> Wake for Bell<K> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let sleeper = {
            let mut rung = self.tower.rung();
            rung.queue.push_back(Arc::clone(self));
            rung.sleeper.take()
        };
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Sleeper(AtomicUsize);

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_bell_that_nobody_hears_any_more_is_taken_down() {
        let bells = Bells::new();
        let tower = Arc::downgrade(&bells.0);
        let bell = bells.hang_ringing(1);
        drop(bells);
        assert!(tower.upgrade().is_some(), "whoever still holds the bell may ring it");
        drop(bell);
        assert!(tower.upgrade().is_none());
    }

    #[test]
    fn a_bell_is_heard_once_however_often_it_rings_and_wakes_only_who_sleeps() {
        let sleeper = Arc::new(Sleeper(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&sleeper));
        let cx = Context::from_waker(&waker);
        let woken = || sleeper.0.load(Ordering::Relaxed);
        let bells = Bells::new();
        let first = bells.hang(1);
        let second = bells.hang_ringing(2);
        first.wake_by_ref();
        assert_eq!((bells.next(), bells.next(), bells.next()), (Some(2), Some(1), None));

        second.wake_by_ref();
        assert_eq!(woken(), 0, "nobody sleeps");
        bells.rest(&cx);
        assert_eq!(woken(), 1, "it rang before the rest began");
        assert_eq!(bells.next(), Some(2));
        bells.rest(&cx);
        first.wake_by_ref();
        second.wake_by_ref();
        assert_eq!(woken(), 2);
        bells.attend();
        assert_eq!((bells.next(), bells.next(), bells.next()), (Some(1), Some(2), None));
    }
}
