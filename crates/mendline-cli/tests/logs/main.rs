//! Log files of real processes, and `mendline logs`.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;

mod disk;
mod explain;
mod following;
mod keeping;
mod reading;
mod secrets;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod site;
mod stage;
mod wire;
