//! The server's description of itself, in either era.

use mendline_wire::meta;
use serde_json::Value;
use serde_json::value::RawValue;

use super::MODERN;
use super::answer::RequestError;

/// The two eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25: a handshake, then a session.
    Legacy,
    /// From 2026-07-28 on: every request is self-contained.
    Modern,
}

impl Era {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }
}

/// The server's description of itself.
#[derive(Clone, Debug)]
pub(crate) struct ServerInfo {
    pub(crate) era: Era,
    /// The protocol revision in use.
    pub(crate) version: String,
    pub(crate) name: Option<String>,
    pub(crate) release: Option<String>,
    pub(crate) capabilities: Value,
}

impl ServerInfo {
    /// Returns whether the server offers `tools`, `prompts` or `resources`.
    pub(crate) fn offers(&self, what: &str) -> bool {
        self.capabilities.get(what).is_some_and(|offer| !offer.is_null())
    }
}

pub(super) fn discovered(result: &RawValue) -> Result<ServerInfo, RequestError> {
    let said: Value = serde_json::from_str(result.get()).unwrap_or(Value::Null);
    let versions: Vec<&str> =
        said["supportedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !versions.contains(&MODERN) {
        let versions = versions.join(", ");
        return Err(RequestError::InvalidResponse(format!("it supports only unknown protocol revisions: {versions}")));
    }
    Ok(server_info(Era::Modern, MODERN, &said["_meta"][meta::SERVER_INFO], &said))
}

pub(super) fn server_info(era: Era, version: &str, who: &Value, said: &Value) -> ServerInfo {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    ServerInfo {
        era,
        version: version.to_owned(),
        name: text(&who["name"]),
        release: text(&who["version"]),
        capabilities: said["capabilities"].clone(),
    }
}
