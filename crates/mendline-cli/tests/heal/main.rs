//! Recovery, and limits when there is none: real processes, signals and sockets.
//!
//! The servers are the demo server as a child and the fault server over HTTP. The tests ask them what really ran. Every
//! test waits with a deadline; a test that has to outlast a timer names it.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod children;
#[path = "../client/mod.rs"]
#[allow(dead_code, reason = "other test binaries use more of it")]
mod client;
mod client_exit;
mod conditions;
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

/// Returns the answer to this request within a deadline and skips every message before it.
pub(crate) fn answer_within(client: &mut client::Client, id: &str, within: Duration) -> Value {
    let deadline = Instant::now() + within;
    loop {
        let answer = next_answer(client, deadline.saturating_duration_since(Instant::now()));
        if answer["id"] == id {
            return answer;
        }
    }
}

/// Returns the next answer to any request.
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
