//! How upstreams are reached.
//!
//! [`child`] runs a server as a process of ours; [`guard`] sees to it that such a process does not outlive us, whatever
//! ends us; `group` signals such a process with all that it started. [`http`] speaks to a server elsewhere; [`remote`] offers
//! it to the driver; [`next`] is where the next command or address waits for its moment. The first two are Unix, and so are the socket options in
//! `http/dial.rs`; what a port to another system has to replace is in these files and in `crate::raw`.

pub mod child;
mod group;
pub mod guard;
pub mod http;
pub mod next;
pub mod remote;

pub use crate::raw::ignore_termination_signals;
