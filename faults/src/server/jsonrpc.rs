//! The JSON-RPC texts that the server writes.

use bytes::Bytes;
use serde_json::{Value, json};

/// A result for the request with this id, given as JSON text.
pub(crate) fn result(id: &[u8], result: &Value) -> Bytes {
    response(id, "result", result)
}

/// An error for the request with this id.
pub(crate) fn error(id: &[u8], code: i64, message: &str) -> Bytes {
    response(id, "error", &json!({ "code": code, "message": message }))
}

/// An error with something to look into.
pub(crate) fn error_with(id: &[u8], code: i64, message: &str, data: &Value) -> Bytes {
    response(id, "error", &json!({ "code": code, "message": message, "data": data }))
}

/// A notification.
pub(crate) fn notification(method: &str, params: &Value) -> Bytes {
    Bytes::from(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
}

/// A request of the server's own.
pub(crate) fn request(id: &str, method: &str, params: &Value) -> Bytes {
    Bytes::from(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
}

/// The id goes back exactly as it came, so the text around it is written by hand.
fn response(id: &[u8], member: &str, body: &Value) -> Bytes {
    let id = String::from_utf8_lossy(id);
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{body}}}"#))
}
