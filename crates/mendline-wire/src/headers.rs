//! The `Mcp-*` headers of 2026-07-28, which repeat parts of the body for intermediaries.
//!
//! A server refuses a request whose headers do not match its body, so they are always derived from the body. A value
//! that HTTP cannot carry (anything but visible ASCII with inner blanks, or text that looks encoded) is encoded as
//! `=?base64?…?=`.

mod param;

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub use self::param::{ParamFault, ParamHeader};
use crate::{Kind, Message, Method, meta};

/// The protocol revision of the request.
pub const PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
/// The method of the request.
pub const METHOD: &str = "Mcp-Method";
/// The tool, prompt, resource or task of the request.
pub const NAME: &str = "Mcp-Name";
/// The prefix of the headers for tool arguments.
pub const PARAM_PREFIX: &str = "Mcp-Param-";
/// The session id, in the legacy era.
pub const SESSION_ID: &str = "Mcp-Session-Id";
/// The event after which to resume a stream, in the legacy era.
pub const LAST_EVENT_ID: &str = "Last-Event-ID";

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// The reason why a header value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderFault {
    /// It contains a character that is not allowed in a header.
    BadCharacter,
    /// The text between the markers is not base64.
    NotBase64,
    /// The encoded text is not UTF-8.
    NotUtf8,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeaderFault::BadCharacter => "a header value with a character that HTTP does not allow",
            HeaderFault::NotBase64 => "a header value that is marked as base64 and is not",
            HeaderFault::NotUtf8 => "a header value that does not decode to UTF-8",
        })
    }
}

impl std::error::Error for HeaderFault {}

/// Encodes a header value.
pub fn encode_value(value: &str) -> Cow<'_, str> {
    if is_plain(value) && !is_marked(value) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(value)))
}

/// Decodes a header value.
pub fn decode_value(header: &str) -> Result<Cow<'_, str>, HeaderFault> {
    // Blanks around a value are not part of it.
    let header = header.trim_matches([' ', '\t']);
    if !is_plain(header) {
        return Err(HeaderFault::BadCharacter);
    }
    if !is_marked(header) {
        return Ok(Cow::Borrowed(header));
    }
    let encoded = &header[PREFIX.len()..header.len() - SUFFIX.len()];
    let bytes = STANDARD.decode(encoded).map_err(|_| HeaderFault::NotBase64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| HeaderFault::NotUtf8)
}

/// Returns the headers of a message. A header exists only if the body has the value.
pub fn derive(message: &Message) -> Vec<(&'static str, String)> {
    let mut headers = Vec::with_capacity(3);
    if !matches!(message.kind(), Kind::Request | Kind::Notification) {
        return headers;
    }
    if let Some(version) = meta::protocol_version(message) {
        headers.push((PROTOCOL_VERSION, encode_value(&version).into_owned()));
    }
    headers.push((METHOD, encode_value(&message.method_name()).into_owned()));
    if let Some(name) = named_by(message.method()).and_then(|key| message.get_str(&[key])) {
        headers.push((NAME, encode_value(&name).into_owned()));
    }
    headers
}

/// Returns the member of `params` that names the subject of a request.
fn named_by(method: Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult => Some("taskId"),
        _ => None,
    }
}

fn is_plain(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) && !is_blank(bytes.first()) && !is_blank(bytes.last())
}

/// Returns whether a value has both markers.
fn is_marked(value: &str) -> bool {
    value.strip_prefix(PREFIX).is_some_and(|rest| rest.ends_with(SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn examples_of_the_specification_are_encoded() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode_value(value), header);
            assert_eq!(decode_value(header).unwrap(), value);
        }
    }

    #[test]
    fn plain_values_are_not_encoded() {
        for plain in ["", "a b", "a\tb", "~!", "=?base64?", "?=", "=?base64?=", "=?BASE64?YQ==?=", "=?base64?YQ=="] {
            assert!(matches!(encode_value(plain), Cow::Borrowed(same) if same == plain), "{plain:?}");
            assert_eq!(decode_value(plain).unwrap(), plain);
        }
        for odd in ["\t", "a ", "\u{7f}", "\0", "a\r\nX-Forged: 1", "é", "=?base64??="] {
            let header = encode_value(odd);
            assert!(header.starts_with(PREFIX) && header.is_ascii(), "{odd:?}");
            assert_eq!(decode_value(&header).unwrap(), odd);
        }
        assert_eq!(decode_value(" us \t").unwrap(), "us");
    }

    #[test]
    fn invalid_header_is_reported_with_reason() {
        assert_eq!(decode_value("caf\u{e9}"), Err(HeaderFault::BadCharacter));
        assert_eq!(decode_value("a\nb"), Err(HeaderFault::BadCharacter));
        assert_eq!(decode_value("=?base64?YQ?="), Err(HeaderFault::NotBase64));
        assert_eq!(decode_value("=?base64?!!?="), Err(HeaderFault::NotBase64));
        assert_eq!(decode_value("=?base64?/w==?="), Err(HeaderFault::NotUtf8));
    }

    #[test]
    fn headers_are_derived_from_the_body() {
        let derived = |text: &'static str| derive(&Message::parse(Bytes::from_static(text.as_bytes())).unwrap());
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"w\u00e9tter","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(
            derived(call),
            [
                (PROTOCOL_VERSION, "2026-07-28".to_owned()),
                (METHOD, "tools/call".to_owned()),
                (NAME, "=?base64?d8OpdHRlcg==?=".to_owned())
            ]
        );
        let read = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a b"}}"#;
        assert_eq!(derived(read), [(METHOD, "resources/read".to_owned()), (NAME, "file:///a b".to_owned())]);
        let task = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}"#;
        assert_eq!(derived(task)[1], (NAME, "t".to_owned()));
        assert_eq!(derived(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), [(METHOD, "ping".to_owned())]);
        assert_eq!(derived(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), []);
    }
}
