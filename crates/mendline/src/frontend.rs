//! The side that clients see.
//!
//! [`stdio`] is the bridge's: one client, on our own stdin and stdout.

pub mod stdio;
