//! Nondeterministic values of the peers.
//!
//! Two direct runs of the same script differ in these values. They are removed from every transcript and from every
//! report of a client before a comparison. Each entry belongs to one peer; the fixture server has none.

use serde_json::Value;

use crate::transcript::Transcript;

/// `server-everything` writes the time of day into its dynamic resources.
const CLOCK: &str = "created at ";

/// `server-everything` chooses the level of one log message at random.
const RANDOM_LEVELS: [(&str, &str); 8] = [
    ("debug", "Debug-level message"),
    ("info", "Info-level message"),
    ("notice", "Notice-level message"),
    ("warning", "Warning-level message"),
    ("error", "Error-level message"),
    ("critical", "Critical-level message"),
    ("alert", "Alert level-message"),
    ("emergency", "Emergency-level message"),
];

/// `server-everything` names its session: a random UUID, or `undefined` without a session. The text before the name is
/// removed too if it occurs only with a session.
const SESSIONS: [(&str, &str); 3] = [(" - SessionId ", ""), ("from session ", ""), ("for session ", "for session •")];

/// Returns a transcript without nondeterministic values.
pub fn remove_from(transcript: &Transcript) -> Transcript {
    let clean = |lines: &[String]| {
        lines.iter().map(|line| without_random_level(&without_session(&without_clock(line)))).collect()
    };
    Transcript { up: clean(&transcript.up), down: clean(&transcript.down) }
}

/// Removes nondeterministic values from a report of a client.
pub fn remove_from_report(report: &mut Value) {
    match report {
        Value::String(text) => *text = without_session(&without_clock(text)),
        Value::Array(items) => items.iter_mut().for_each(remove_from_report),
        Value::Object(members) => {
            let value = members.get("data").and_then(Value::as_str).map(without_session);
            if value.is_some_and(|value| RANDOM_LEVELS.iter().any(|(_, words)| *words == value)) {
                members.insert("data".into(), "•".into());
                members.insert("level".into(), "•".into());
            }
            members.values_mut().for_each(remove_from_report);
        }
        _ => {}
    }
}

fn without_clock(text: &str) -> String {
    let Some((before, rest)) = text.split_once(CLOCK) else { return text.to_owned() };
    // The time ends its string and consists of these characters: `2:58:12 AM`.
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ": \u{202f}APM".contains(c))).unwrap_or(rest.len());
    format!("{before}{CLOCK}•{}", &rest[end..])
}

fn without_session(text: &str) -> String {
    let mut text = text.to_owned();
    for (before, instead) in SESSIONS {
        let Some((head, rest)) = text.split_once(before) else { continue };
        let length = if rest.starts_with("undefined") { "undefined".len() } else { uuid_length(rest) };
        if length > 0 {
            text = format!("{head}{instead}{}", &rest[length..]);
        }
    }
    text
}

/// Returns the length of the UUID at the start of the text, or zero.
fn uuid_length(text: &str) -> usize {
    let length = text.find(|c: char| !(c.is_ascii_hexdigit() || c == '-')).unwrap_or(text.len());
    if length == "01234567-89ab-cdef-0123-456789abcdef".len() { length } else { 0 }
}

fn without_random_level(line: &str) -> String {
    let thrown = RANDOM_LEVELS.iter().map(|(level, words)| format!(r#""level":"{level}","data":"{words}""#));
    match thrown.into_iter().find(|thrown| line.contains(thrown)) {
        Some(thrown) => line.replace(&thrown, r#""level":"•","data":"•""#),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{remove_from, remove_from_report};
    use crate::transcript::Transcript;

    #[test]
    fn only_clock_and_random_values_are_removed() {
        let transcript = Transcript {
            up: vec![],
            down: vec![
                r#"{"text":"Resource 7: This is a plaintext resource created at 2:58:12 AM"},"id":17}"#.into(),
                r#"{"params":{"level":"alert","data":"Alert level-message"}}"#.into(),
                r#"{"params":{"level":"alert","data":"something else"}}"#.into(),
            ],
        };
        assert_eq!(
            remove_from(&transcript).down,
            [
                r#"{"text":"Resource 7: This is a plaintext resource created at •"},"id":17}"#,
                r#"{"params":{"level":"•","data":"•"}}"#,
                r#"{"params":{"level":"alert","data":"something else"}}"#,
            ]
        );
    }

    #[test]
    fn session_ids_and_session_fields_are_removed() {
        let session = "0b8f3c52-8d3e-4d5e-9a51-0f6f1c2d3e4f";
        let normalized = |text: String| remove_from(&Transcript { up: vec![text], down: vec![] }).up.remove(0);
        for name in [session, "undefined"] {
            assert_eq!(normalized(format!("logging for session {name} at a pace")), "logging for session • at a pace");
        }
        assert_eq!(normalized(format!("request for URI: a://b from session {session}\"")), "request for URI: a://b \"");
        assert_eq!(
            normalized(format!(r#""level":"info","data":"Info-level message - SessionId {session}""#)),
            r#""level":"•","data":"•""#
        );
        assert_eq!(normalized("no text from session 5".into()), "no text from session 5");
    }

    #[test]
    fn report_is_normalized_like_transcript() {
        let mut report =
            serde_json::json!([{"data": "Info-level message", "level": "info"}, "created at 2:58:12 AM", 3]);
        remove_from_report(&mut report);
        assert_eq!(report, serde_json::json!([{"data": "•", "level": "•"}, "created at •", 3]));
    }
}
