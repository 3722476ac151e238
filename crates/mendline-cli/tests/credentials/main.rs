//! Logins and other sources of credentials: the real binary, a protected MCP server and an authorization server.
//!
//! The browser is a small program that writes the address to a file; the test then follows it as a browser would. All
//! traffic stays on loopback, and no test sleeps for a fixed time.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod browser;
mod canned;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../client/mod.rs"]
mod client;
mod faults;
mod logins;
mod networks;
mod renewals;
mod secrets;
mod sources;
mod stage;
mod tokens;
