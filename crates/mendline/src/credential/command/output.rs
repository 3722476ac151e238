//! The output of a command that prints a credential.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::Secret;
use serde_json::{Map, Value};

use super::super::{Credential, HeaderForm};

/// From this number on, a time is in milliseconds; in seconds it would be in the year 5138.
const MILLISECONDS: f64 = 1e11;

/// Returns the credential in an output. The error says what is wrong, without the output.
pub(super) fn credential(output: &[u8], form: &HeaderForm) -> Result<Credential, String> {
    let text = std::str::from_utf8(output).map_err(|_| "it is not text in UTF-8".to_owned())?;
    if !text.trim_start().starts_with('{') {
        return form.read(text).map_err(|why| why.to_string());
    }
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|_| "it begins like JSON and cannot be parsed".to_owned())?;
    let (headers, expires_at) = match object.get("headers") {
        Some(Value::Object(headers)) => (headers, expiry(object.get("expiresAt"))?),
        Some(_) => return Err("its member \"headers\" is not an object".to_owned()),
        None => (&object, None),
    };
    let headers = headers.iter().map(|(name, value)| match value {
        Value::String(value) => Ok((name.clone(), Secret::new(value))),
        _ => Err("the value of a header is not a string".to_owned()),
    });
    let headers = headers.collect::<Result<Vec<_>, String>>()?;
    if headers.is_empty() {
        return Err("it has no headers".to_owned());
    }
    let credential = Credential { headers, expires_at };
    // The name of a header may be part of a misplaced secret.
    credential.check().map_err(|fault| format!("a header {}", fault.why))?;
    Ok(credential)
}

/// Parses a time: RFC 3339, seconds or milliseconds since 1970.
fn expiry(value: Option<&Value>) -> Result<Option<SystemTime>, String> {
    let invalid =
        || "its member \"expiresAt\" is neither a time like 2026-01-31T12:00:00Z nor a number of seconds".to_owned();
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => humantime::parse_rfc3339(text.trim()).map(Some).map_err(|_| invalid()),
        Some(value) => {
            let number = value.as_f64().ok_or_else(invalid)?;
            let seconds = if number >= MILLISECONDS { number / 1000.0 } else { number };
            let since_1970 = Duration::try_from_secs_f64(seconds).map_err(|_| invalid())?;
            UNIX_EPOCH.checked_add(since_1970).map(Some).ok_or_else(invalid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(output: &str) -> Result<String, String> {
        let Credential { headers, expires_at } = credential(output.as_bytes(), &HeaderForm::default())?;
        let mut shown: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {}", value.expose())).collect();
        shown.extend(expires_at.map(|time| humantime::format_rfc3339(time).to_string()));
        Ok(shown.join(" "))
    }

    #[test]
    fn headers_are_read_with_their_expiry() {
        for (output, expected) in [
            ("token\n", "Authorization: Bearer token"),
            (r#"{"Authorization":"Basic x","X-Org":"y"}"#, "Authorization: Basic x X-Org: y"),
            (r#" {"headers":{"A":"b"}}"#, "A: b"),
            (r#"{"headers":{"A":"b"},"expiresAt":null}"#, "A: b"),
            (r#"{"headers":{"A":"b"},"expiresAt":"2026-01-31T12:00:00Z"}"#, "A: b 2026-01-31T12:00:00Z"),
            (r#"{"headers":{"A":"b"},"expiresAt":1800000000}"#, "A: b 2027-01-15T08:00:00Z"),
            (r#"{"headers":{"A":"b"},"expiresAt":1800000000000}"#, "A: b 2027-01-15T08:00:00Z"),
        ] {
            assert_eq!(parsed(output).as_deref(), Ok(expected), "{output}");
        }
    }

    #[test]
    fn invalid_objects_are_refused_without_their_text() {
        for output in [
            r#"{"hunter2":7}"#,
            r#"{"hunter2 x":"y"}"#,
            r#"{"A":"hunter2\n"}"#,
            r#"{"Connection":"hunter2"}"#,
            r#"{"headers":"hunter2"}"#,
            r#"{"headers":{}}"#,
            "{}",
            r#"{"headers":{"A":"hunter2"},"expiresAt":"soon"}"#,
            r#"{"headers":{"A":"hunter2"},"expiresAt":-1}"#,
            r#"{"headers":{"A":"hunter2"},"expiresAt":1e300}"#,
            r#"{"A":"hunter2"} {"#,
        ] {
            let why = parsed(output).unwrap_err();
            assert!(!why.contains("hunter2") && !why.is_empty(), "{output}: {why}");
        }
    }
}
