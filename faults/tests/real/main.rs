//! Tests of the server, the proxy, every fault and every toxic over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod authorization;
mod client;
mod command;
mod control;
mod faults;
mod http2;
mod outages;
mod proxy;
mod readme;
mod server;
mod toxics;
