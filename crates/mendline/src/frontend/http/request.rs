//! The parts of a client's HTTP request that decide how it is answered.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use mendline_wire::{Kind, Message, Method, Received, code, headers, meta, revision};

/// The revision of a client that names none.
pub const DEFAULT_REVISION: &str = "2025-03-26";

/// Returns the revision of a legacy request without a session. An unknown one is refused.
pub fn legacy_revision(headers: &HeaderMap) -> Result<&'static str, RefusedPost> {
    let Some(value) = headers.get(headers::PROTOCOL_VERSION) else { return Ok(DEFAULT_REVISION) };
    let known = revision::LEGACY.into_iter().find(|known| value.as_bytes() == known.as_bytes());
    known.ok_or_else(|| RefusedPost {
        status: StatusCode::BAD_REQUEST,
        code: code::INVALID_REQUEST,
        why: format!(
            "the header {} names no known revision; known are {}",
            headers::PROTOCOL_VERSION,
            revision::LEGACY.join(", ")
        ),
        id: None,
    })
}

/// A route of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// MCP over Streamable HTTP, of a server or of the only one.
    Mcp(Option<&'a str>),
    /// The event stream of 2024-11-05.
    Sse(Option<&'a str>),
    /// The endpoint for messages of 2024-11-05.
    SseMessage(Option<&'a str>),
    /// Whether the process runs.
    Health,
    /// Whether the gateway takes requests; of one server, whether it answers.
    Ready(Option<&'a str>),
    /// The status of the servers.
    ApiStatus,
    /// Their events.
    ApiEvents,
    /// Their metrics.
    Metrics,
    /// None of them.
    Unknown,
}

impl Route<'_> {
    /// Returns the route of a path.
    pub fn of(path: &str) -> Route<'_> {
        let path = path.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(path);
        let mut parts = path.strip_prefix('/').unwrap_or_default().split('/');
        let (first, second, third, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
        match (first, second, third, rest) {
            (Some("mcp"), server, None, _) => Route::Mcp(server),
            (Some("sse"), Some("message"), None, _) => Route::SseMessage(None),
            (Some("sse"), Some(server), Some("message"), None) => Route::SseMessage(Some(server)),
            (Some("sse"), server, None, _) => Route::Sse(server),
            (Some("healthz"), None, ..) => Route::Health,
            (Some("readyz"), server, None, _) => Route::Ready(server),
            (Some("api"), Some("status"), None, _) => Route::ApiStatus,
            (Some("api"), Some("events"), None, _) => Route::ApiEvents,
            (Some("metrics"), None, ..) => Route::Metrics,
            _ => Route::Unknown,
        }
    }
}

/// The forms of an answer that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// `application/json`.
    pub json: bool,
    /// `text/event-stream`.
    pub events: bool,
}

impl Accepts {
    /// Reads the `Accept` header. A client without one accepts both.
    pub fn of(headers: &HeaderMap) -> Accepts {
        let mut accepts = Accepts { json: false, events: false };
        let mut is_present = false;
        for value in headers.get_all(ACCEPT) {
            is_present = true;
            for range in value.to_str().unwrap_or_default().split(',') {
                let range = range.split(';').next().unwrap_or_default().trim();
                let is_any = range == "*/*";
                accepts.json |= is_any || range.eq_ignore_ascii_case("application/json") || range == "application/*";
                accepts.events |= is_any || range.eq_ignore_ascii_case("text/event-stream") || range == "text/*";
            }
        }
        if is_present { accepts } else { Accepts { json: true, events: true } }
    }
}

/// Returns whether the body is declared as JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The content of a POST.
#[derive(Debug)]
pub struct Posted {
    /// The frame.
    pub received: Received,
    /// The era and the role of its messages.
    pub kind: PostedKind,
}

/// The role of a POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostedKind {
    /// The `initialize` request, with the text of its parameters.
    Initialize,
    /// At least one request. The id of the request if it is the only one.
    Requests(Option<Vec<u8>>),
    /// Notifications and responses only.
    OneWay,
    /// A request of the modern era, with the id.
    Modern(Vec<u8>),
    /// Not JSON-RPC.
    Broken,
}

/// A POST that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPost {
    /// The HTTP status.
    pub status: StatusCode,
    /// The JSON-RPC code.
    pub code: i64,
    /// The reason.
    pub why: String,
    /// The text of the id of the request.
    pub id: Option<Vec<u8>>,
}

impl Posted {
    /// Classifies a frame, and checks the headers of a modern request against its body.
    pub fn new(received: Received, headers: &HeaderMap) -> Result<Posted, RefusedPost> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let is_modern_header = header(headers::PROTOCOL_VERSION).is_some_and(revision::is_modern);
        let kind = match &received {
            Received::Message(message) if message.kind() == Kind::Request => {
                if is_modern_header || meta::is_modern(message) {
                    check_modern(message, headers)?;
                    PostedKind::Modern(message.id().unwrap_or_default().to_vec())
                } else if message.method() == Method::Initialize {
                    PostedKind::Initialize
                } else {
                    PostedKind::Requests(message.id().map(<[u8]>::to_vec))
                }
            }
            Received::Message(_) => PostedKind::OneWay,
            Received::Batch(messages) => {
                let is_request = |message: &Message| message.kind() == Kind::Request;
                let has_request = messages.iter().any(|message| message.as_ref().map_or(true, is_request));
                if has_request { PostedKind::Requests(None) } else { PostedKind::OneWay }
            }
            Received::Broken { .. } | Received::TooLong { .. } => PostedKind::Broken,
        };
        Ok(Posted { received, kind })
    }
}

/// Checks that a modern request has what it needs, and that its headers repeat its body.
fn check_modern(message: &Message, headers: &HeaderMap) -> Result<(), RefusedPost> {
    let refuse_with = |status, code, why: String| {
        let id = message.id().map(<[u8]>::to_vec);
        Err(RefusedPost { status, code, why, id })
    };
    let refuse = |code, why| refuse_with(StatusCode::BAD_REQUEST, code, why);
    if meta::protocol_version(message).is_none() {
        return refuse(code::INVALID_PARAMS, format!("_meta has no {}", meta::PROTOCOL_VERSION));
    }
    if message.get(&["_meta", meta::CLIENT_CAPABILITIES]).is_none() {
        return refuse(code::INVALID_PARAMS, format!("_meta has no {}", meta::CLIENT_CAPABILITIES));
    }
    let expected = headers::derive(message);
    for name in [headers::PROTOCOL_VERSION, headers::METHOD, headers::NAME] {
        let expected = expected.iter().find(|(its, _)| *its == name).map(|(_, value)| headers::decode_value(value));
        let given = headers.get(name).map(|value| value.to_str().map(headers::decode_value));
        match (expected, given) {
            (Some(Ok(expected)), Some(Ok(Ok(given)))) if expected == given => {}
            (None, None) => {}
            (Some(_), None) => return refuse(code::HEADER_MISMATCH, format!("the header {name} is missing")),
            _ => return refuse(code::HEADER_MISMATCH, format!("the header {name} does not match the body")),
        }
    }
    if message.method() == Method::Initialize {
        // The engine would take it for the handshake of the legacy era.
        let why = "the revision of this request has no handshake; send requests without 'initialize'".to_owned();
        return refuse_with(StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND, why);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mendline_wire::Limits;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn paths_are_routed() {
        for (path, route) in [
            ("/mcp", Route::Mcp(None)),
            ("/mcp/", Route::Mcp(None)),
            ("/mcp/notes", Route::Mcp(Some("notes"))),
            ("/mcp/notes/", Route::Mcp(Some("notes"))),
            ("/mcp/notes/x", Route::Unknown),
            ("/sse", Route::Sse(None)),
            ("/sse/notes", Route::Sse(Some("notes"))),
            ("/sse/message", Route::SseMessage(None)),
            ("/sse/notes/message", Route::SseMessage(Some("notes"))),
            ("/healthz", Route::Health),
            ("/metrics", Route::Metrics),
            ("/metrics/notes", Route::Unknown),
            ("/readyz/notes", Route::Ready(Some("notes"))),
            ("/", Route::Unknown),
            ("", Route::Unknown),
            ("/mcps", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }

    #[test]
    fn accept_header_decides_the_form_of_the_answer() {
        let of = |value| {
            let Accepts { json, events } = Accepts::of(&headers(&[("accept", value)]));
            (json, events)
        };
        assert_eq!(of("application/json, text/event-stream"), (true, true));
        assert_eq!(of("text/event-stream;q=0.9"), (false, true));
        assert_eq!(of("*/*"), (true, true));
        assert_eq!(of("text/html"), (false, false));
        assert_eq!(Accepts::of(&HeaderMap::new()), Accepts { json: true, events: true });
    }

    fn posted(text: &str, pairs: &[(&'static str, &str)]) -> Result<PostedKind, RefusedPost> {
        let received = Received::from_text(Bytes::copy_from_slice(text.as_bytes()), &Limits::default());
        Posted::new(received, &headers(pairs)).map(|posted| posted.kind)
    }

    #[test]
    fn unknown_revision_is_refused() {
        let of =
            |value| legacy_revision(&headers(&[("mcp-protocol-version", value)])).map_err(|refused| refused.status);
        assert_eq!(legacy_revision(&HeaderMap::new()), Ok(DEFAULT_REVISION));
        assert_eq!(of("2025-06-18"), Ok("2025-06-18"));
        for unknown in ["2025-06-19", "x", ""] {
            assert_eq!(of(unknown), Err(StatusCode::BAD_REQUEST), "{unknown}");
        }
    }

    #[test]
    fn posts_are_classified() {
        let request = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#;
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let reply = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(posted(request, &[]), Ok(PostedKind::Requests(Some(b"\"a\"".to_vec()))));
        assert_eq!(posted(notice, &[]), Ok(PostedKind::OneWay));
        assert_eq!(posted(reply, &[]), Ok(PostedKind::OneWay));
        assert_eq!(posted(&format!("[{notice},{reply}]"), &[]), Ok(PostedKind::OneWay));
        assert_eq!(posted(&format!("[{notice},{request}]"), &[]), Ok(PostedKind::Requests(None)));
        assert_eq!(posted("{", &[]), Ok(PostedKind::Broken));
        assert_eq!(
            posted(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, &[]),
            Ok(PostedKind::Initialize)
        );
    }

    #[test]
    fn headers_of_a_modern_request_must_match_its_body() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let version = ("mcp-protocol-version", "2026-07-28");
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "add"));
        assert_eq!(posted(text, &[version, method, name]), Ok(PostedKind::Modern(b"1".to_vec())));
        for pairs in [
            &[version, method][..],
            &[version, name],
            &[method, name],
            &[version, method, ("mcp-name", "other")],
            &[version, ("mcp-method", "tools/list"), name],
            &[("mcp-protocol-version", "2025-11-25"), method, name],
        ] {
            let refused = posted(text, pairs).unwrap_err();
            assert_eq!((refused.status, refused.code), (StatusCode::BAD_REQUEST, code::HEADER_MISMATCH), "{pairs:?}");
        }
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert_eq!(posted(bare, &[version]).unwrap_err().code, code::INVALID_PARAMS);
    }

    #[test]
    fn modern_request_without_capabilities_or_with_handshake_is_refused() {
        let (version, list) = (("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list"));
        let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{{meta}}}}}}}"#);
        let refused = posted(&text, &[version, list]).unwrap_err();
        assert_eq!((refused.status, refused.code), (StatusCode::BAD_REQUEST, code::INVALID_PARAMS));
        let meta = format!(r#"{meta},"io.modelcontextprotocol/clientCapabilities":{{}}"#);
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"_meta":{{{meta}}}}}}}"#);
        let refused = posted(&text, &[version, ("mcp-method", "initialize")]).unwrap_err();
        assert_eq!((refused.status, refused.code), (StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND));
    }
}
