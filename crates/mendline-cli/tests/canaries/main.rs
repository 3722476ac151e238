//! Canaries: secrets that are given to Mendline or sent by a server, searched for in everything that leaves the
//! process.
//!
//! A hostile child, server or proxy repeats each secret in many forms and across every limit at which Mendline
//! truncates a text. Neither a secret nor eight characters of one may occur in an answer by Mendline itself, in the
//! output of a command, in logs, wire records, status, catalogue, other files or arguments of processes. Answers of the
//! server pass unchanged and are not searched.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;

mod canary;
mod children;
mod explain;
mod home;
mod peers;
mod proxies;
mod report;
mod servers;
