//! What goes on around us: the machine sleeps and wakes, its network changes.
//!
//! Neither says anything about a server. Both say that what is believed about the way there may be wrong, and that now is
//! the time to look. Both are waited for and never polled for: a laptop is not woken to be asked whether it slept. What
//! this needs of the system is Linux; elsewhere opening either of them fails, and whoever wanted it does without.

pub mod network;
pub mod sleep;
