//! The HTTP transport with servers that the tests write byte by byte, over in-memory streams on paused time and over
//! loopback sockets.

#![allow(clippy::unwrap_used, reason = "what fails in the scenery of a test fails the test")]

mod answers;
mod codings;
mod connections;
mod cuts;
#[path = "../memory/dialer.rs"]
mod dialer;
mod fetch;
mod http2;
mod limits;
mod redirects;
mod sockets;
mod stage;
mod tls;
