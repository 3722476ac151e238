//! `mendline serve`: real processes and sockets, requests written by hand.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod access;
mod access_log;
mod access_reload;
mod audit;
mod forward_headers;
mod gateway;
mod jwt;
mod limits;
mod modern;
mod operation;
mod promises;
mod proxies;
mod reload;
mod sessions;
mod sharing;
mod soak;
mod sse;
mod statistics;
mod streams;
mod tls;
mod tokens;
mod tools;
mod users;

use serde_json::{Value, json};

/// Returns a request.
pub(crate) fn request(id: u32, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// Returns a call of a tool of the demo server.
pub(crate) fn call(id: u32, tool: &str, arguments: &Value) -> String {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

/// Returns the handshake of a client.
pub(crate) fn initialize(revision: &str) -> String {
    let params = json!({
        "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    request(1, "initialize", &params)
}
