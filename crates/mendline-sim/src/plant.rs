//! Which planted defect is awake on this thread.
//!
//! All defects are compiled into one copy of the core, each behind a question to this cell; so one build holds them all and
//! two threads can look for two of them at once. The core itself knows nothing of it.

use std::cell::Cell;

thread_local! {
    static AWAKE: Cell<u32> = const { Cell::new(0) };
}

/// Wakes one defect on this thread; 0 wakes none.
pub fn set(defect: u32) {
    AWAKE.set(defect);
}

/// Whether this defect is awake here.
pub fn is(defect: u32) -> bool {
    AWAKE.get() == defect
}
