//! Assignment of a message to an attempt of a call.
//!
//! The id of the message is the number of the attempt; progress and cancellation messages mention it, too. Only the
//! beginning of a long message is logged, so the readable members count even if the whole is cut.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::record::Record;

/// Returns the number of the attempt that this message belongs to.
pub(super) fn attempt(record: &Record<'_>) -> Option<u64> {
    let is_from_server = match record.way.as_deref() {
        Some("fromServer") => true,
        Some("toServer") => false,
        // The client has its own ids.
        _ => return None,
    };
    let message = Beginning::of(&record.text);
    match message.id {
        // A request of the server has an id of the server, and so has the response to it.
        Some(_) if message.is_request == is_from_server => None,
        Some(number) => Some(number),
        None => message.mentioned,
    }
}

/// The members of a message, as far as they can be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Beginning {
    id: Option<u64>,
    /// The id of another message that this one mentions.
    mentioned: Option<u64>,
    is_request: bool,
}

impl Beginning {
    fn of(text: &str) -> Beginning {
        let mut beginning = Beginning::default();
        // A cut message ends with an error, after its readable members.
        let _ = serde_json::Deserializer::from_str(text).deserialize_map(&mut beginning);
        beginning
    }
}

impl<'de> Visitor<'de> for &mut Beginning {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<Cow<'_, str>>()? {
            match &*name {
                "id" => self.id = members.next_value::<Value>()?.as_u64(),
                "method" => {
                    self.is_request = true;
                    members.next_value::<IgnoredAny>()?;
                }
                "params" => {
                    let params = members.next_value::<Value>()?;
                    let mentioned = params.get("progressToken").or_else(|| params.get("requestId"));
                    self.mentioned = mentioned.and_then(Value::as_u64);
                }
                _ => _ = members.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(way: &str, text: &str) -> Option<u64> {
        let line = serde_json::json!({
            "time": "2026-11-15T12:20:12.123Z", "level": "info", "server": "notes", "pid": 1, "kind": "wire", "way": way,
            "text": text,
        });
        attempt(&Record::parse(line.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn message_belongs_to_its_own_or_mentioned_attempt() {
        assert_eq!(of("toServer", r#"{"id":7,"method":"tools/call","params":{"_meta":{"progressToken":7}}}"#), Some(7));
        assert_eq!(of("fromServer", r#"{"id":7,"result":{}}"#), Some(7));
        assert_eq!(of("fromServer", r#"{"method":"notifications/progress","params":{"progressToken":7}}"#), Some(7));
        assert_eq!(of("toServer", r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#), Some(7));
    }

    #[test]
    fn ids_of_client_and_server_are_ignored() {
        assert_eq!(of("fromServer", r#"{"id":7,"method":"roots/list"}"#), None);
        assert_eq!(of("toServer", r#"{"id":7,"result":{}}"#), None);
        assert_eq!(of("fromClient", r#"{"id":7,"method":"tools/call"}"#), None);
        for text in ["", "x", "[]", "{", r#"{"id":"x"}"#, r#"{"id":-1,"result":{}}"#] {
            assert_eq!(of("fromServer", text), None, "{text}");
        }
    }

    #[test]
    fn cut_message_is_assigned_by_its_beginning() {
        assert_eq!(of("fromServer", r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"long"#), Some(7));
        assert_eq!(of("toServer", r#"{"id":7,"method":"tools/call","params":{"text":"lo"#), Some(7));
    }
}
