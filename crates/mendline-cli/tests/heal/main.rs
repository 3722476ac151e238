//! What heals, and what stays bounded when nothing does: real processes, real signals, real sockets.
//!
//! The servers are those of the other tests: the demonstration server as a child, the fault server over HTTP. What they
//! really did is asked of them. Every story waits for what it expects with a deadline; one that has to outlast a timer says
//! which.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod children;
#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;
mod client_exit;
mod load;
mod protocol;
mod restart;
#[path = "../http/site.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod site;
#[path = "../http/sockets.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod sockets;
#[path = "../real/support.rs"]
#[allow(dead_code, unused_imports, reason = "other test binaries use more of it")]
mod support;

use std::time::{Duration, Instant};

use serde_json::Value;

/// The answer to this request, for which it may be worth to wait; everything before it is skipped.
pub(crate) fn answer_within(client: &mut client::Client, id: &str, within: Duration) -> Value {
    let deadline = Instant::now() + within;
    loop {
        let answer = next_answer(client, deadline.saturating_duration_since(Instant::now()));
        if answer["id"] == id {
            return answer;
        }
    }
}

/// The next answer, whatever it answers.
pub(crate) fn next_answer(client: &mut client::Client, within: Duration) -> Value {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = client.lines.as_ref().unwrap().recv_timeout(left);
        let line = line.unwrap_or_else(|why| panic!("no answer within {within:?}: {why}; log:\n{}", client.log()));
        let message: Value = serde_json::from_str(&line).expect("a line that is not JSON reached the client");
        if message.get("method").is_none() {
            return message;
        }
    }
}
