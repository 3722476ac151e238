//! Events of the operating system: the machine resumed from sleep, the network changed.
//!
//! Neither event says anything about a server. Both mean that connectivity may have changed and that connections need a
//! check. Mendline waits for both events and never polls, so it does not wake a sleeping laptop. [`crate::os`]
//! reads both from the system; where that fails, the caller continues without these events.

pub mod network;
pub mod sleep;
