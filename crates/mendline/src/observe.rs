//! Tells people what happened.
//!
//! [`log`] writes the engine's events and the children's own words to our stderr, in one stream.

pub mod log;
