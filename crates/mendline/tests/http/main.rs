//! The HTTP transport against servers whose every byte is written by hand, over cables in memory with paused time and
//! over loopback sockets.

#![allow(clippy::unwrap_used, reason = "what fails in the scenery of a test fails the test")]

mod answers;
mod codings;
mod connections;
mod cuts;
mod http2;
mod limits;
mod redirects;
mod sockets;
mod stage;
mod tls;
