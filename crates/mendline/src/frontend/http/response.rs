//! The HTTP responses of the gateway.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use mendline_core::sharing::NoRoom;
use mendline_core::words::{self, Cause};
use mendline_wire::{Id, Kind, Message, Received, code};

use super::access::Denied;
use super::body::{EventBody, ResponseBody};
use super::operation::FollowedEvents;
use super::request::RefusedPost;
use super::sessions::Session;
use crate::metrics;

/// The headers that a web page may always send.
const ALLOWED_HEADERS: &str =
    "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";

/// The most headers of a web page that are looked at.
const MOST_ASKED: usize = 100;

/// A response of the gateway.
pub(super) type Answer = Response<ResponseBody>;

/// Returns the status of an answer in the modern era, in which it says the same as the code.
pub(super) fn modern_status(text: &Bytes) -> StatusCode {
    let message = Message::parse(text.clone()).ok();
    let code =
        message.as_ref().and_then(|message| message.get(&["code"])).and_then(|raw| std::str::from_utf8(raw).ok());
    match code.and_then(|code| code.parse::<i64>().ok()) {
        Some(code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(
            code::HEADER_MISMATCH
            | code::MISSING_CLIENT_CAPABILITY
            | code::UNSUPPORTED_PROTOCOL_VERSION
            | code::INVALID_REQUEST
            | code::PARSE_ERROR,
        ) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn respond(status: StatusCode, kind: Option<&'static str>, body: ResponseBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    if let Some(kind) = kind {
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    answer
}

/// Returns whether a body is a JSON-RPC error.
pub(super) fn is_error(body: &ResponseBody) -> bool {
    single_message(body).is_some_and(|message| message.kind() == Kind::Error)
}

/// Returns the message of a body that is not a stream.
pub(super) fn single_message(body: &ResponseBody) -> Option<Message> {
    let ResponseBody::Text(Some(text)) = body else { return None };
    Message::parse(text.clone()).ok()
}

/// A response with JSON.
pub(super) fn json(status: StatusCode, body: Bytes) -> Answer {
    respond(status, Some("application/json"), ResponseBody::Text(Some(body)))
}

/// A response with a stream of events.
pub(super) fn events(body: EventBody) -> Answer {
    event_stream(ResponseBody::Events(Box::new(body)))
}

/// A response with a stream of events for the operator.
pub(super) fn followed(body: FollowedEvents) -> Answer {
    event_stream(ResponseBody::Followed(Box::new(body)))
}

fn event_stream(body: ResponseBody) -> Answer {
    let mut answer = respond(StatusCode::OK, Some("text/event-stream"), body);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // nginx holds back a response until its buffer is full, unless it is told not to.
    answer.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    answer
}

/// A response with a line for people.
pub(super) fn text(status: StatusCode, body: &'static str) -> Answer {
    respond(status, Some("text/plain; charset=utf-8"), ResponseBody::Text(Some(Bytes::from_static(body.as_bytes()))))
}

/// A response with metrics.
pub(super) fn open_metrics(body: String) -> Answer {
    respond(StatusCode::OK, Some(metrics::text::CONTENT_TYPE), ResponseBody::Text(Some(Bytes::from(body))))
}

/// A response without content.
pub(super) fn empty(status: StatusCode) -> Answer {
    respond(status, None, ResponseBody::empty())
}

/// A JSON-RPC error, for a request that does not reach the engine.
pub(super) fn json_error(status: StatusCode, code: i64, why: &str, id: Option<&[u8]>) -> Answer {
    let id = Id::from_raw(id.unwrap_or(b"null"));
    json(status, words::error_response(&id, code, why))
}

/// The answer to a request whose stream is over without one: it was cancelled, or its session has ended.
pub(super) fn without_answer(id: Option<&[u8]>) -> Answer {
    json(StatusCode::OK, words::ended_without_answer(&Id::from_raw(id.unwrap_or(b"null"))))
}

/// The refusal of a client for which there is no process or session.
pub(super) fn no_room(full: NoRoom) -> Answer {
    let clients = if full.is_own { "your clients" } else { "other clients" };
    let limit = full.limit;
    let why = format!("the server has {limit} processes or sessions of {clients}, which is the limit; try again later");
    let mut answer = json_error(StatusCode::SERVICE_UNAVAILABLE, Cause::Overloaded.code(), &why, None);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
    answer
}

/// The response to a POST that is refused.
pub(super) fn refused_post(refused: &RefusedPost) -> Answer {
    json_error(refused.status, refused.code, &refused.why, refused.id.as_deref())
}

/// The response to a body that is not JSON-RPC.
pub(super) fn broken(received: &Received) -> Answer {
    match received {
        Received::Broken { error, .. } => {
            let id = error.id.as_ref().map(Id::as_bytes);
            json_error(StatusCode::BAD_REQUEST, code::PARSE_ERROR, &error.to_string(), id)
        }
        _ => json_error(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, "the message is too long", None),
    }
}

/// The response to a request without access.
pub(super) fn denied(why: &Denied) -> Answer {
    let mut answer = json_error(why.status(), code::INVALID_REQUEST, &why.to_string(), None);
    if why.status() == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    answer
}

/// The response to the id of a session that is not the client's.
pub(super) fn unknown_session() -> Answer {
    let why = "the session is not known; send 'initialize' to begin a new one";
    json_error(StatusCode::NOT_FOUND, code::INVALID_REQUEST, why, None)
}

/// The response to another HTTP method than the allowed ones.
pub(super) fn method_not_allowed(allowed: &'static str) -> Answer {
    let why = format!("only {allowed} are possible here");
    let mut answer = json_error(StatusCode::METHOD_NOT_ALLOWED, code::INVALID_REQUEST, &why, None);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Adds the session id.
pub(super) fn with_session(mut answer: Answer, session: &Session) -> Answer {
    if let Some(id) = session.id.as_ref().and_then(|id| HeaderValue::from_str(id).ok()) {
        answer.headers_mut().insert(HeaderName::from_static("mcp-session-id"), id);
    }
    answer
}

/// Lets a web page of this origin read the response, and send the headers of MCP. `asked` are the headers that it wants
/// to send, `forwarded` those that servers get.
pub(super) fn add_cors(
    headers: &mut HeaderMap,
    origin: HeaderValue,
    asked: Option<&HeaderValue>,
    forwarded: &[String],
) {
    let mut add = |name: &'static str, value: HeaderValue| headers.insert(HeaderName::from_static(name), value);
    add("access-control-allow-origin", origin);
    add("vary", HeaderValue::from_static("origin"));
    add("access-control-allow-methods", HeaderValue::from_static("GET, POST, DELETE"));
    add("access-control-allow-headers", allowed_headers(asked, forwarded));
    add("access-control-expose-headers", HeaderValue::from_static("mcp-session-id, www-authenticate"));
}

/// Returns the headers that a web page may send. The names of `Mcp-Param-*` depend on the tools.
fn allowed_headers(asked: Option<&HeaderValue>, forwarded: &[String]) -> HeaderValue {
    let mut names = ALLOWED_HEADERS.to_owned();
    let asked = asked.and_then(|asked| asked.to_str().ok()).unwrap_or_default();
    for name in asked.split(',').map(|name| name.trim().to_ascii_lowercase()).take(MOST_ASKED) {
        let is_allowed =
            name.starts_with("mcp-param-") || forwarded.iter().any(|known| known.eq_ignore_ascii_case(&name));
        if is_allowed && HeaderName::from_bytes(name.as_bytes()).is_ok() {
            names.push_str(", ");
            names.push_str(&name);
        }
    }
    HeaderValue::from_str(&names).unwrap_or(HeaderValue::from_static(ALLOWED_HEADERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_parameters_and_servers_are_allowed_to_web_pages() {
        let asked = HeaderValue::from_static("Mcp-Param-Key, x-jira-token, x-other, mcp-param-a b");
        let allowed = allowed_headers(Some(&asked), &["X-Jira-Token".to_owned()]);
        let expected = format!("{ALLOWED_HEADERS}, mcp-param-key, x-jira-token");
        assert_eq!(allowed.to_str().unwrap(), expected);
        assert_eq!(allowed_headers(None, &[]), ALLOWED_HEADERS);
    }
}
