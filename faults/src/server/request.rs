//! One HTTP request, as far as the server and its faults look at it.

use bytes::Bytes;
use http::{HeaderMap, Method as Verb, Version};
use mendline_wire::{Kind, Message, headers, meta};
use serde_json::Value;

use super::socket::ConnectionHandle;
use crate::oracle::Seen;

/// One HTTP request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// GET, POST or DELETE.
    pub verb: Verb,
    /// The path, without the query.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: Bytes,
    /// The message in it, if it is one.
    pub message: Option<Message>,
    params: Value,
    pub(crate) handle: ConnectionHandle,
    /// Which request of its connection it is, from 1.
    pub(crate) sequence: u64,
}

impl HttpRequest {
    pub(crate) fn new(parts: &http::request::Parts, text: Bytes, handle: ConnectionHandle, sequence: u64) -> HttpRequest {
        let message = Message::parse(text.clone()).ok();
        let params = message.as_ref().and_then(Message::body).and_then(|body| serde_json::from_slice(body).ok());
        HttpRequest {
            verb: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            version: parts.version,
            headers: parts.headers.clone(),
            text,
            message,
            params: params.unwrap_or_default(),
            handle,
            sequence,
        }
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether a header lists a media type.
    pub fn lists(&self, name: &str, kind: &str) -> bool {
        let listed = self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut kinds = listed.flat_map(|list| list.split(',')).map(|kind| kind.split(';').next().unwrap_or(""));
        kinds.any(|listed| listed.trim().eq_ignore_ascii_case(kind))
    }

    /// The session that it says it belongs to.
    pub fn session(&self) -> Option<&str> {
        self.header(headers::SESSION_ID)
    }

    /// What a stream is to be resumed after.
    pub fn last_event_id(&self) -> Option<&str> {
        self.header(headers::LAST_EVENT_ID)
    }

    /// Whether it resumes a stream.
    pub fn is_resume(&self) -> bool {
        self.verb == Verb::GET && self.last_event_id().is_some()
    }

    /// Whether it is a GET that opens a stream anew.
    pub fn is_fresh_get(&self) -> bool {
        self.verb == Verb::GET && self.last_event_id().is_none()
    }

    /// Whether it calls a tool.
    pub fn is_call(&self) -> bool {
        self.method() == Some("tools/call")
    }

    /// Whether it is a JSON-RPC request of any method.
    pub fn is_request(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.kind() == Kind::Request)
    }

    /// Whether it says itself that it is of the modern era.
    pub fn is_modern(&self) -> bool {
        let named = self.header(headers::PROTOCOL_VERSION).is_some_and(|revision| revision >= "2026");
        named || self.message.as_ref().is_some_and(meta::is_modern)
    }

    /// The method of the request or notification in it; of a response there is none.
    pub fn method(&self) -> Option<&str> {
        // A name that the table does not know is only asked for where its text is shown; see `what`.
        self.message.as_ref().and_then(|message| message.method().name())
    }

    /// What it is counted as: its method, `response`, or `unreadable`.
    pub fn what(&self) -> String {
        match &self.message {
            None => "unreadable".to_owned(),
            Some(message) if matches!(message.kind(), Kind::Result | Kind::Error) => "response".to_owned(),
            Some(message) => message.method_name().into_owned(),
        }
    }

    /// The JSON text of the id; `null` when it has none.
    pub fn id(&self) -> Bytes {
        let id = self.message.as_ref().and_then(Message::id).unwrap_or(b"null");
        Bytes::copy_from_slice(id)
    }

    /// The parameters; nothing when there are none.
    pub fn params(&self) -> &Value {
        &self.params
    }

    /// The tool that it calls.
    pub fn tool(&self) -> Option<&str> {
        self.is_call().then(|| self.params["name"].as_str())?
    }

    pub(crate) fn seen(&self, fault: Option<&'static str>) -> Seen {
        let header = |name| self.header(name).map(str::to_owned);
        let message = self.message.as_ref();
        let says = message.filter(|message| matches!(message.kind(), Kind::Request | Kind::Notification));
        Seen {
            verb: self.verb.to_string(),
            path: self.path.clone(),
            http2: self.version == Version::HTTP_2,
            connection: self.handle.number(),
            method: says.map(|message| message.method_name().into_owned()),
            id: message.and_then(Message::id).map(|id| String::from_utf8_lossy(id).into_owned()),
            session: header(headers::SESSION_ID),
            revision: header(headers::PROTOCOL_VERSION),
            named_method: header(headers::METHOD),
            named: header(headers::NAME),
            last_event_id: header(headers::LAST_EVENT_ID),
            fault,
        }
    }
}

#[cfg(test)]
impl HttpRequest {
    /// A POST with a body and nothing else.
    pub(crate) fn post(path: &str, text: &str) -> HttpRequest {
        let (parts, ()) = http::Request::post(path).body(()).unwrap().into_parts();
        HttpRequest::new(&parts, Bytes::copy_from_slice(text.as_bytes()), ConnectionHandle::new(1), 1)
    }
}
