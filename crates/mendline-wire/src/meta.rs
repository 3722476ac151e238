//! The keys of `_meta` that Mendline uses.
//!
//! In the modern era every request carries in `params._meta` what a session negotiated once in the legacy era: the
//! protocol revision, the client and its capabilities. A modern message is recognised by it.

use std::borrow::Cow;

use crate::{Kind, Message, Patch, Span, Spliced, Value};

/// The protocol revision of a request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The capabilities of the client.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The client.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The log level for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The server, in its results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The id of the `subscriptions/listen` request that a message belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The progress token.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// W3C trace context, reserved without a prefix.
pub const TRACEPARENT: &str = "traceparent";
/// W3C trace state.
pub const TRACESTATE: &str = "tracestate";
/// W3C baggage.
pub const BAGGAGE: &str = "baggage";
/// The failure that Mendline reports.
pub const FAILURE: &str = "dev.mendline/failure";

/// Returns the protocol revision of a request or notification.
pub fn protocol_version(message: &Message) -> Option<Cow<'_, str>> {
    let speaks = message.may_have_meta() && matches!(message.kind(), Kind::Request | Kind::Notification);
    (speaks && message.mentions(PROTOCOL_VERSION)).then(|| message.get_str(&["_meta", PROTOCOL_VERSION]))?
}

/// Returns the span of the subscription id of a notification or a result.
pub fn subscription_id(message: &Message) -> Option<Span> {
    let belongs = message.may_have_meta() && matches!(message.kind(), Kind::Notification | Kind::Result);
    let span = (belongs && message.mentions(SUBSCRIPTION_ID)).then(|| message.find(&["_meta", SUBSCRIPTION_ID]))??;
    matches!(message.slice(span).first(), Some(b'"' | b'-' | b'0'..=b'9')).then_some(span)
}

/// Returns whether a request or notification is modern: it names its revision.
pub fn is_modern(message: &Message) -> bool {
    protocol_version(message).is_some()
}

/// Returns a copy of a result without [`FAILURE`], or `None` if it has none. Only Mendline may set it: a server could
/// otherwise claim that an executed call was not sent.
pub fn without_failure(message: &Message) -> Option<Message> {
    let may_say = message.kind() == Kind::Result && message.may_have_meta() && message.mentions(FAILURE);
    let result = message.value().filter(|_| may_say)?;
    // A key can occur twice, and readers differ in which one they use.
    let metas = result.members().filter(|(key, _)| key.as_str().as_deref() == Some("_meta"));
    let is_claim = |key: &Value<'_>| key.as_str().as_deref() == Some(FAILURE);
    let edits: Vec<(Span, Patch)> = metas
        .filter(|(_, meta)| meta.members().any(|(key, _)| is_claim(&key)))
        .map(|(_, meta)| {
            let kept = meta.members().filter(|(key, _)| !is_claim(key));
            let kept = kept.map(|(key, value)| [key.raw(), b":", value.raw()].concat()).collect::<Vec<_>>();
            (meta.span(), Patch::from([b"{", &*kept.join(&b','), b"}"].concat().as_slice()))
        })
        .collect();
    if edits.is_empty() {
        return None;
    }
    Message::parse(Spliced::new(message.text().clone(), edits).to_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(text: &'static str) -> Message {
        Message::parse(Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn modern_request_names_its_revision() {
        let modern = message(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        );
        assert_eq!(protocol_version(&modern).as_deref(), Some("2026-07-28"));
        assert!(is_modern(&modern));
        let escaped = message(
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"x"}}}"#,
        );
        assert!(is_modern(&escaped), "a slash may be escaped");
        let hidden = message(
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"\u005fmeta":{"io.modelcontextprotocol/protocolVersion":"x"}}}"#,
        );
        assert!(is_modern(&hidden), "so may any other character");
        let legacy = message(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","x":"io.modelcontextprotocol/protocolVersion"}}"#,
        );
        assert!(!is_modern(&legacy));
        assert!(!is_modern(&message(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)));
    }

    #[test]
    fn w04_only_mendline_says_that_a_call_failed() {
        let cut = |result: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
            let message = Message::parse(Bytes::from(text.into_bytes())).unwrap();
            without_failure(&message).map(|cut| String::from_utf8(cut.body().unwrap().to_vec()).unwrap())
        };
        let claim = r#""dev.mendline/failure":{"outcome":"not_sent"}"#;
        assert_eq!(cut(&format!(r#"{{"_meta":{{{claim}}},"a":1}}"#)).unwrap(), r#"{"_meta":{},"a":1}"#);
        assert_eq!(
            cut(&format!(r#"{{"_meta":{{"x":1, {claim} ,"y":[2]}}}}"#)).unwrap(),
            r#"{"_meta":{"x":1,"y":[2]}}"#
        );
        assert_eq!(cut(&format!(r#"{{"_meta":{{{claim},{claim}}}}}"#)).unwrap(), r#"{"_meta":{}}"#);
        let twice = format!(r#"{{"_meta":{{{claim}}},"_meta":{{"a":1,{claim}}}}}"#);
        assert_eq!(cut(&twice).unwrap(), r#"{"_meta":{},"_meta":{"a":1}}"#);
        let escaped = r#"{"\u005fmeta":{"dev.mendline\/failure":1}}"#;
        assert_eq!(cut(escaped).unwrap(), r#"{"\u005fmeta":{}}"#);
        for untouched in
            [r#"{"a":"dev.mendline/failure"}"#, r#"{"_meta":{"a":"dev.mendline/failure"}}"#, r#"{"_meta":7}"#, "{}"]
        {
            assert_eq!(cut(untouched), None, "{untouched}");
        }
    }

    #[test]
    fn subscription_is_identified_by_request_id() {
        let notice = message(
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s1"}}}"#,
        );
        assert_eq!(subscription_id(&notice).map(|span| notice.slice(span)), Some(&b"\"s1\""[..]));
        let result = message(
            r#"{"jsonrpc":"2.0","id":5,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":5},"resultType":"complete"}}"#,
        );
        assert_eq!(subscription_id(&result).map(|span| result.slice(span)), Some(&b"5"[..]));
        assert_eq!(subscription_id(&message(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#)), None);
    }
}
