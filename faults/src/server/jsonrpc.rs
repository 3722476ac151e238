//! The JSON-RPC messages of the server.

use bytes::Bytes;
use serde_json::{Value, json};

/// A result for the request with this id. The id is JSON text.
pub(crate) fn result(id: &[u8], result: &Value) -> Bytes {
    response(id, "result", result)
}

/// An error for the request with this id.
pub(crate) fn error(id: &[u8], code: i64, message: &str) -> Bytes {
    response(id, "error", &json!({ "code": code, "message": message }))
}

/// An error with a `data` member.
pub(crate) fn error_with(id: &[u8], code: i64, message: &str, data: &Value) -> Bytes {
    response(id, "error", &json!({ "code": code, "message": message, "data": data }))
}

/// A notification.
pub(crate) fn notification(method: &str, params: &Value) -> Bytes {
    Bytes::from(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
}

/// A request to the client.
pub(crate) fn request(id: &str, method: &str, params: &Value) -> Bytes {
    Bytes::from(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
}

/// The id is inserted as raw text, so that it returns unchanged.
fn response(id: &[u8], member: &str, body: &Value) -> Bytes {
    let id = String::from_utf8_lossy(id);
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{body}}}"#))
}
