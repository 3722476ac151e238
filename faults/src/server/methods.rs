//! Requests that are answered at once: `initialize`, lists, and settings of the client.

use bytes::Bytes;
use mendline_wire::code;
use serde_json::{Value, json};

use super::admitted::{Admitted, Protocol};
use super::{jsonrpc, tools};
use crate::settings::Era;

const RESOURCE: &str = "memo://one";

/// The requests of the modern era.
pub(crate) const MODERN: &[&str] = &[
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "subscriptions/listen",
];

/// The `serverInfo` of the server.
pub(crate) fn server_info() -> Value {
    json!({ "name": "mendline-faults", "version": env!("CARGO_PKG_VERSION") })
}

/// Returns the answer to a request.
pub(crate) fn answer(admitted: &Admitted) -> Bytes {
    let request = &admitted.request;
    let id = request.id();
    let method = request.what();
    match result(admitted, &method) {
        Some(result) => jsonrpc::result(&id, &admitted.protocol.result(result)),
        None => jsonrpc::error(&id, code::METHOD_NOT_FOUND, &format!("no method {method}")),
    }
}

/// Handles a notification.
pub(crate) fn handle_notification(admitted: &Admitted) {
    let request = &admitted.request;
    if request.method() == Some("notifications/cancelled") && admitted.protocol != Protocol::Modern {
        admitted.session.cancel(&request.params()["requestId"].to_string().into());
    }
}

fn result(admitted: &Admitted, method: &str) -> Option<Value> {
    let params = admitted.request.params();
    let is_modern = admitted.protocol == Protocol::Modern;
    let result = match method {
        "initialize" => initialize_result(params),
        "ping" => json!({}),
        "server/discover" if is_modern => json!({ "supportedVersions": Era::MODERN, "capabilities": capabilities() }),
        "tools/list" => json!({ "tools": tools::list() }),
        "resources/list" => json!({ "resources": [{ "uri": RESOURCE, "name": "one" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => json!({ "contents": [{ "uri": params["uri"], "text": "remember" }] }),
        "prompts/list" => json!({ "prompts": [{ "name": "hello" }] }),
        "prompts/get" => json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "Hello" } }] }),
        "completion/complete" => json!({ "completion": { "values": ["one"] } }),
        "resources/subscribe" | "resources/unsubscribe" => {
            admitted.session.subscribe(params["uri"].as_str()?, method == "resources/subscribe");
            json!({})
        }
        "logging/setLevel" => {
            admitted.session.set_level(params["level"].as_str()?);
            json!({})
        }
        // Returns the client's settings, so that a test can check that they were restored in a new session.
        "faults/state" => {
            let (subscriptions, level) = admitted.session.state();
            json!({ "session": admitted.session.id(), "subscriptions": subscriptions, "level": level })
        }
        // Returns its parameters.
        "faults/echo" => params.clone(),
        _ => return None,
    };
    Some(if is_modern { cacheable(result, method) } else { result })
}

fn initialize_result(params: &Value) -> Value {
    let requested = params["protocolVersion"].as_str().unwrap_or_default();
    let agreed = Era::LEGACY.iter().find(|revision| **revision == requested).unwrap_or(&Era::LEGACY[0]);
    json!({ "protocolVersion": agreed, "capabilities": capabilities(), "serverInfo": server_info() })
}

fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": {},
        "logging": {},
        "completions": {},
    })
}

/// Adds the caching members of the modern era to lists and documents: never cache.
fn cacheable(mut result: Value, method: &str) -> Value {
    let is_kept = method.ends_with("/list") || matches!(method, "server/discover" | "resources/read");
    if let (true, Some(members)) = (is_kept, result.as_object_mut()) {
        members.insert("ttlMs".to_owned(), 0.into());
        members.insert("cacheScope".to_owned(), "private".into());
    }
    result
}
