//! Transports to clients.
//!
//! [`stdio`] serves one client on the stdin and stdout of this process.

pub use crate::os::stdio;
