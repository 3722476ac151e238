//! Streamable HTTP of 2026-07-28: no session, every request says all about itself, and its headers say the same.

use std::sync::Arc;

use http::StatusCode;
use mendline_wire::{code, headers, meta};
use serde_json::{Value, json};

use super::admitted::{Admitted, Protocol};
use super::request::HttpRequest;
use super::site::{Refused, Site};
use super::{methods, words};
use crate::settings::Era;

/// Accepts a message, or says why not.
pub(crate) fn admit(site: &Site, request: HttpRequest) -> Result<Arc<Admitted>, Refused> {
    if request.is_request() {
        check(site, &request)?;
    }
    Ok(Arc::new(Admitted { request, protocol: Protocol::Modern, session: site.commons() }))
}

/// What a server of the modern era says to anything of the legacy one.
pub(crate) fn refuse_legacy(site: &Site, request: &HttpRequest) -> Refused {
    unsupported(site, request, &request.params()["protocolVersion"])
}

fn check(site: &Site, request: &HttpRequest) -> Result<(), Refused> {
    let said = &request.params()["_meta"];
    let revision = &said[meta::PROTOCOL_VERSION];
    // Read from the body by other means than the ones under test: this is the other side of the contract.
    let method = request.what();
    let name = match method.as_str() {
        "tools/call" | "prompts/get" => request.params()["name"].as_str(),
        "resources/read" => request.params()["uri"].as_str(),
        _ => None,
    };
    agree(site, request, headers::PROTOCOL_VERSION, revision.as_str())?;
    agree(site, request, headers::METHOD, Some(&method))?;
    agree(site, request, headers::NAME, name)?;
    if !revision.is_string() || !said[meta::CLIENT_CAPABILITIES].is_object() {
        let words = "the _meta of a request names its protocolVersion and clientCapabilities";
        return Err(site.refuse(StatusCode::BAD_REQUEST, request, code::INVALID_PARAMS, words));
    }
    if !Era::MODERN.contains(&revision.as_str().unwrap_or_default()) {
        return Err(unsupported(site, request, revision));
    }
    if !methods::MODERN.contains(&method.as_str()) && !method.starts_with("faults/") {
        let words = format!("no method {method}");
        return Err(site.refuse(StatusCode::NOT_FOUND, request, code::METHOD_NOT_FOUND, &words));
    }
    Ok(())
}

/// A header says what the body says.
fn agree(site: &Site, request: &HttpRequest, name: &str, body: Option<&str>) -> Result<(), Refused> {
    let header = request.header(name).map(headers::decode_value);
    let is_same = match (&header, body) {
        (Some(Ok(header)), Some(body)) => header == body,
        (None, None) => true,
        _ => false,
    };
    if is_same {
        return Ok(());
    }
    let words = format!("{name} says {header:?} and the body {body:?}");
    Err(site.refuse(StatusCode::BAD_REQUEST, request, code::HEADER_MISMATCH, &words))
}

fn unsupported(site: &Site, request: &HttpRequest, requested: &Value) -> Refused {
    let data = json!({ "supported": Era::MODERN, "requested": requested });
    let text =
        words::error_with(&request.id(), code::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", &data);
    site.refuse_with(StatusCode::BAD_REQUEST, text)
}
