//! An HTTP request as the server and its faults see it.

use bytes::Bytes;
use http::{HeaderMap, Method as Verb, Version};
use mendline_wire::{Kind, Message, headers, meta};
use serde_json::Value;

use super::socket::ConnectionHandle;
use crate::oracle::Seen;

/// An HTTP request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// GET, POST or DELETE.
    pub verb: Verb,
    /// The path, without the query.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: Bytes,
    /// The message in the body, if it is valid.
    pub message: Option<Message>,
    params: Value,
    pub(crate) handle: ConnectionHandle,
    /// The number of the request on its connection, from 1.
    pub(crate) sequence: u64,
}

impl HttpRequest {
    pub(crate) fn new(
        parts: &http::request::Parts,
        text: Bytes,
        handle: ConnectionHandle,
        sequence: u64,
    ) -> HttpRequest {
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

    /// Returns a header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns whether a header lists a media type.
    pub fn lists(&self, name: &str, kind: &str) -> bool {
        let listed = self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut kinds = listed.flat_map(|list| list.split(',')).map(|kind| kind.split(';').next().unwrap_or(""));
        kinds.any(|listed| listed.trim().eq_ignore_ascii_case(kind))
    }

    /// Returns the session id of the request.
    pub fn session(&self) -> Option<&str> {
        self.header(headers::SESSION_ID)
    }

    /// Returns the id of the last event that the client has received.
    pub fn last_event_id(&self) -> Option<&str> {
        self.header(headers::LAST_EVENT_ID)
    }

    /// Returns whether it resumes a stream.
    pub fn is_resume(&self) -> bool {
        self.verb == Verb::GET && self.last_event_id().is_some()
    }

    /// Returns whether it is a GET that opens a new stream.
    pub fn is_fresh_get(&self) -> bool {
        self.verb == Verb::GET && self.last_event_id().is_none()
    }

    /// Returns whether it calls a tool.
    pub fn is_call(&self) -> bool {
        self.method() == Some("tools/call")
    }

    /// Returns whether it is a JSON-RPC request of any method.
    pub fn is_request(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.kind() == Kind::Request)
    }

    /// Returns whether it declares the modern era.
    pub fn is_modern(&self) -> bool {
        let named = self.header(headers::PROTOCOL_VERSION).is_some_and(|revision| revision >= "2026");
        named || self.message.as_ref().is_some_and(meta::is_modern)
    }

    /// Returns the method of a request or notification.
    pub fn method(&self) -> Option<&str> {
        // Only methods of the specification have a name here; see `what` for the others.
        self.message.as_ref().and_then(|message| message.method().name())
    }

    /// Returns the name that it is counted under: its method, `response`, or `unreadable`.
    pub fn what(&self) -> String {
        match &self.message {
            None => "unreadable".to_owned(),
            Some(message) if matches!(message.kind(), Kind::Result | Kind::Error) => "response".to_owned(),
            Some(message) => message.method_name().into_owned(),
        }
    }

    /// Returns the JSON text of the id, or `null`.
    pub fn id(&self) -> Bytes {
        let id = self.message.as_ref().and_then(Message::id).unwrap_or(b"null");
        Bytes::copy_from_slice(id)
    }

    /// Returns the parameters, or null.
    pub fn params(&self) -> &Value {
        &self.params
    }

    /// Returns the name of the called tool.
    pub fn tool(&self) -> Option<&str> {
        self.is_call().then(|| self.params["name"].as_str())?
    }

    pub(crate) fn seen(&self, fault: Option<&'static str>) -> Seen {
        let header = |name| self.header(name).map(str::to_owned);
        let message = self.message.as_ref();
        let named = message.filter(|message| matches!(message.kind(), Kind::Request | Kind::Notification));
        Seen {
            verb: self.verb.to_string(),
            path: self.path.clone(),
            http2: self.version == Version::HTTP_2,
            connection: self.handle.number(),
            method: named.map(|message| message.method_name().into_owned()),
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
    /// A POST without headers.
    pub(crate) fn post(path: &str, text: &str) -> HttpRequest {
        let (parts, ()) = http::Request::post(path).body(()).unwrap().into_parts();
        HttpRequest::new(&parts, Bytes::copy_from_slice(text.as_bytes()), ConnectionHandle::new(1), 1)
    }
}
