//! Tells people what happened.
//!
//! [`log`] is where everything goes that is worth a line: the engine's events, the children's own words, and what the rest
//! of the program has to say. It writes to our stderr and, if it was asked to, to [`files`] that `mendline logs` reads. On
//! the way [`redact`] hides what nobody may see, and [`escaped`] makes text from outside harmless.

pub mod errno;
pub mod escaped;
pub mod files;
pub mod log;
pub mod redact;
mod stderr;
