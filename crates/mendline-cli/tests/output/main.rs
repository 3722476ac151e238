//! The output of every command: where it goes, what happens when it cannot be written, and what it must not contain.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is how it fails")]

mod broken_output;
mod hostile;
mod stage;
mod usage_errors;
