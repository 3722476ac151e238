//! `mendline doctor`, `tools` and `call` as real processes with faulty servers.
//!
//! For every layer at which a connection can fail there is a server at which it does. Snapshots hold the output, with
//! times and ports replaced. The tests use only loopback and never sleep for a fixed time.

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
mod running;
mod scrubbed;
mod secure;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod site;
mod stage;
mod terminal;
