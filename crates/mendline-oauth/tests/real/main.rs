//! Logins with real sockets, the authorization server of `faults/`, and processes that are killed.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod killed;
mod logins;
mod stage;
