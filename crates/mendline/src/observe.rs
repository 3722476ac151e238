//! Logs.
//!
//! [`log`] takes the events of the engine, the stderr of children and the messages of the program. It writes to stderr
//! and, if configured, to [`files`] that `mendline logs` reads. [`redact`] hides secrets, and [`escaped`] escapes text
//! from peers.

pub mod errno;
pub mod escaped;
pub mod files;
pub mod log;
mod names;
pub mod redact;
pub mod signal;
mod stderr;
