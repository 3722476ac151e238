//! Events of the operating system: the machine resumed from sleep, the network changed.
//!
//! Neither event says anything about a server. Both mean that connectivity may have changed and that connections need a
//! check. Mendline waits for both events and never polls, so it does not wake a sleeping laptop. The implementation is
//! for Linux; on other systems `watch` fails and the caller continues without these events.

pub mod network;
pub mod sleep;
