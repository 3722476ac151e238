//! `mendline doctor`, `tools` and `call` as real processes before servers that break on purpose.
//!
//! For every layer at which the way to a server can end there is a server at which it does. What is printed is reviewed as
//! text, with times and ports replaced. Nothing leaves loopback, and nothing sleeps to be lucky.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod calls;
mod canned;
mod children;
#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;
mod files;
mod layers;
mod pages;
mod scrubbed;
mod secure;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod site;
mod stage;
mod terminal;
