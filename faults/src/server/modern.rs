//! Streamable HTTP of 2026-07-28: no session; every request carries its metadata in the body and in headers.

use std::sync::Arc;

use http::StatusCode;
use mendline_wire::{code, headers, meta};
use serde_json::{Value, json};

use super::admitted::{Admitted, Protocol};
use super::request::HttpRequest;
use super::state::{Refused, ServerState};
use super::{jsonrpc, methods};
use crate::settings::Era;

/// Checks and accepts a message.
pub(crate) fn admit(state: &ServerState, request: HttpRequest) -> Result<Arc<Admitted>, Refused> {
    if request.is_request() {
        validate(state, &request)?;
    }
    Ok(Arc::new(Admitted { request, protocol: Protocol::Modern, session: state.shared_session() }))
}

/// Refuses a legacy message on a modern server.
pub(crate) fn refuse_legacy(state: &ServerState, request: &HttpRequest) -> Refused {
    unsupported(state, request, &request.params()["protocolVersion"])
}

fn validate(state: &ServerState, request: &HttpRequest) -> Result<(), Refused> {
    let declared = &request.params()["_meta"];
    let revision = &declared[meta::PROTOCOL_VERSION];
    // Parsed without the code under test, so that the check is independent of it.
    let method = request.what();
    let name = match method.as_str() {
        "tools/call" | "prompts/get" => request.params()["name"].as_str(),
        "resources/read" => request.params()["uri"].as_str(),
        _ => None,
    };
    check_header(state, request, headers::PROTOCOL_VERSION, revision.as_str())?;
    check_header(state, request, headers::METHOD, Some(&method))?;
    check_header(state, request, headers::NAME, name)?;
    if !revision.is_string() || !declared[meta::CLIENT_CAPABILITIES].is_object() {
        let message = "_meta must contain protocolVersion and clientCapabilities";
        return Err(state.refuse(StatusCode::BAD_REQUEST, request, code::INVALID_PARAMS, message));
    }
    if !Era::MODERN.contains(&revision.as_str().unwrap_or_default()) {
        return Err(unsupported(state, request, revision));
    }
    if !methods::MODERN.contains(&method.as_str()) && !method.starts_with("faults/") {
        let message = format!("no method {method}");
        return Err(state.refuse(StatusCode::NOT_FOUND, request, code::METHOD_NOT_FOUND, &message));
    }
    Ok(())
}

/// Checks that a header agrees with the body.
fn check_header(state: &ServerState, request: &HttpRequest, name: &str, body: Option<&str>) -> Result<(), Refused> {
    let header = request.header(name).map(headers::decode_value);
    let is_same = match (&header, body) {
        (Some(Ok(header)), Some(body)) => header == body,
        (None, None) => true,
        _ => false,
    };
    if is_same {
        return Ok(());
    }
    let message = format!("header {name} is {header:?}, but the body has {body:?}");
    Err(state.refuse(StatusCode::BAD_REQUEST, request, code::HEADER_MISMATCH, &message))
}

fn unsupported(state: &ServerState, request: &HttpRequest, requested: &Value) -> Refused {
    let data = json!({ "supported": Era::MODERN, "requested": requested });
    let text =
        jsonrpc::error_with(&request.id(), code::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", &data);
    state.refuse_with(StatusCode::BAD_REQUEST, text)
}
