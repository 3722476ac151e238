//! Everything that every command writes: where it goes, what becomes of it when it cannot be written, and what it must not
//! hold.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is how it fails")]

mod broken_output;
mod hostile;
mod usage_errors;
mod stage;
