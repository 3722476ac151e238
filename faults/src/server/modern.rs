//! Streamable HTTP of 2026-07-28: no session, every request says all about itself, and its headers say the same.

use std::sync::Arc;

use http::StatusCode;
use mendline_wire::{code, headers, meta};
use serde_json::{Value, json};

use super::admitted::{Admitted, Speech};
use super::asked::Asked;
use super::site::{Refused, Site};
use super::{methods, words};
use crate::settings::Era;

/// Accepts a message, or says why not.
pub(crate) fn admit(site: &Site, asked: Asked) -> Result<Arc<Admitted>, Refused> {
    if asked.is_request() {
        check(site, &asked)?;
    }
    Ok(Arc::new(Admitted { asked, speech: Speech::Modern, session: site.commons() }))
}

/// What a server of the modern era says to anything of the legacy one.
pub(crate) fn refuse_legacy(site: &Site, asked: &Asked) -> Refused {
    unsupported(site, asked, &asked.params()["protocolVersion"])
}

fn check(site: &Site, asked: &Asked) -> Result<(), Refused> {
    let said = &asked.params()["_meta"];
    let revision = &said[meta::PROTOCOL_VERSION];
    // Read from the body by other means than the ones under test: this is the other side of the contract.
    let method = asked.what();
    let name = match method.as_str() {
        "tools/call" | "prompts/get" => asked.params()["name"].as_str(),
        "resources/read" => asked.params()["uri"].as_str(),
        _ => None,
    };
    agree(site, asked, headers::PROTOCOL_VERSION, revision.as_str())?;
    agree(site, asked, headers::METHOD, Some(&method))?;
    agree(site, asked, headers::NAME, name)?;
    if !revision.is_string() || !said[meta::CLIENT_CAPABILITIES].is_object() {
        let words = "the _meta of a request names its protocolVersion and clientCapabilities";
        return Err(site.refuse(StatusCode::BAD_REQUEST, asked, code::INVALID_PARAMS, words));
    }
    if !Era::MODERN.contains(&revision.as_str().unwrap_or_default()) {
        return Err(unsupported(site, asked, revision));
    }
    if !methods::MODERN.contains(&method.as_str()) && !method.starts_with("faults/") {
        let words = format!("no method {method}");
        return Err(site.refuse(StatusCode::NOT_FOUND, asked, code::METHOD_NOT_FOUND, &words));
    }
    Ok(())
}

/// A header says what the body says.
fn agree(site: &Site, asked: &Asked, name: &str, body: Option<&str>) -> Result<(), Refused> {
    let header = asked.header(name).map(headers::decode_value);
    let is_same = match (&header, body) {
        (Some(Ok(header)), Some(body)) => header == body,
        (None, None) => true,
        _ => false,
    };
    if is_same {
        return Ok(());
    }
    let words = format!("{name} says {header:?} and the body {body:?}");
    Err(site.refuse(StatusCode::BAD_REQUEST, asked, code::HEADER_MISMATCH, &words))
}

fn unsupported(site: &Site, asked: &Asked, requested: &Value) -> Refused {
    let data = json!({ "supported": Era::MODERN, "requested": requested });
    let text =
        words::error_with(&asked.id(), code::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", &data);
    site.refuse_with(StatusCode::BAD_REQUEST, text)
}
