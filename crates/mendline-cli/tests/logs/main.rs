//! Log files of real processes, and `mendline logs` before them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is how it says no")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "shared with stories that need more of it")]
mod client;

mod disk;
mod following;
mod keeping;
mod reading;
mod secrets;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "shared with stories that need more of it")]
mod site;
mod stage;
mod wire;
