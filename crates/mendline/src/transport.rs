//! How upstreams are reached.
//!
//! [`child`] runs a server as a process of ours; [`guard`] sees to it that such a process does not outlive us, whatever
//! ends us. Both are Unix; what a port to another system has to replace is in these files and in `crate::raw`.

pub mod child;
pub mod guard;

pub use crate::raw::ignore_endings;
