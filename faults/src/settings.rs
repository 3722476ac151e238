//! The settings of the server without faults.
//!
//! The names are the same in Rust, in the JSON of the control port and in the `name=value` options of the command line.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// The era of `/mcp`. `/sse` always uses HTTP+SSE.
    pub era: Era,
    /// True if legacy clients get a session. Without sessions there is no GET stream, and no stream can be resumed.
    pub sessions: bool,
    /// The form of answers, unless a call chooses another one by its `answer` argument.
    pub answers: Answers,
    /// True if the events of legacy streams have ids, so that the streams can be resumed.
    pub ids: bool,
    /// True if a legacy stream begins with an event that has an id and no data.
    pub prime: bool,
    /// The `retry` of the first event of a legacy stream.
    pub retry_ms: Option<u64>,
    /// The interval of keep-alive comments.
    pub comment_ms: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            era: Era::Both,
            sessions: true,
            answers: Answers::Events,
            ids: true,
            prime: true,
            retry_ms: None,
            comment_ms: None,
        }
    }
}

/// The protocol revisions of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Era {
    /// Up to 2025-11-25.
    Legacy,
    /// 2026-07-28.
    Modern,
    /// All of them.
    Both,
}

impl Era {
    /// The revisions of the modern era.
    pub const MODERN: &'static [&'static str] = &["2026-07-28"];
    /// The revisions of the legacy era, the newest first.
    pub const LEGACY: &'static [&'static str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

    pub(crate) fn is_legacy(self) -> bool {
        self != Era::Modern
    }

    pub(crate) fn is_modern(self) -> bool {
        self != Era::Legacy
    }
}

/// The form of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answers {
    /// One JSON text.
    Json,
    /// An event stream.
    Events,
}

/// An invalid `name=value` option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidOption(String);

impl fmt::Display for InvalidOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidOption {}

impl Settings {
    /// Returns these settings with the changes of a JSON object.
    pub(crate) fn changed(&self, changes: &Value) -> Result<Settings, InvalidOption> {
        changed(self, changes)
    }
}

/// Returns settings with the changes of a JSON object.
pub(crate) fn changed<T: Serialize + DeserializeOwned>(settings: &T, changes: &Value) -> Result<T, InvalidOption> {
    let mut whole = serde_json::to_value(settings).map_err(|error| InvalidOption(error.to_string()))?;
    let (Some(whole_map), Some(changes)) = (whole.as_object_mut(), changes.as_object()) else {
        return Err(InvalidOption("settings must be a JSON object".to_owned()));
    };
    whole_map.extend(changes.iter().map(|(name, value)| (name.clone(), value.clone())));
    serde_json::from_value(whole).map_err(|error| InvalidOption(error.to_string()))
}

/// Builds an object from `name=value` options. A value that is valid JSON is used as JSON, any other as a string.
pub(crate) fn object_from_options<'a>(options: impl IntoIterator<Item = &'a str>) -> Result<Value, InvalidOption> {
    let pairs = options.into_iter().map(|option| {
        let (name, value) = option
            .split_once('=')
            .ok_or_else(|| InvalidOption(format!("option {option:?} is not of the form name=value")))?;
        Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
    });
    pairs.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_and_json_give_the_same_settings() {
        let options = object_from_options(["era=modern", "sessions=false", "retryMs=50"]).unwrap();
        let changed = Settings::default().changed(&options).unwrap();
        assert_eq!(changed, Settings { era: Era::Modern, sessions: false, retry_ms: Some(50), ..Settings::default() });
        assert_eq!(changed.changed(&json!({ "retryMs": null, "sessions": true })).unwrap().retry_ms, None);
    }

    #[test]
    fn unknown_option_is_refused() {
        assert!(object_from_options(["era"]).is_err());
        assert!(Settings::default().changed(&json!({ "ear": "modern" })).is_err());
        assert!(Settings::default().changed(&json!([])).is_err());
    }
}
