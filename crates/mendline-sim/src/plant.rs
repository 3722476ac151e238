//! The active planted defect of this thread.
//!
//! All defects are compiled into one copy of the core. Each asks this cell whether it is active, so one build holds all
//! of them and two threads can run two defects at once. The core itself is unchanged.

use std::cell::Cell;

thread_local! {
    static AWAKE: Cell<u32> = const { Cell::new(0) };
}

/// Activates one defect on this thread; 0 activates none.
pub fn set(defect: u32) {
    AWAKE.set(defect);
}

/// Returns whether this defect is active on this thread.
pub fn is(defect: u32) -> bool {
    AWAKE.get() == defect
}
