//! Streamable HTTP up to 2025-11-25: sessions, a GET stream, DELETE.

use std::sync::Arc;

use http::StatusCode;
use http::header::ALLOW;
use mendline_wire::{code, headers};

use super::admitted::{Admitted, Protocol};
use super::reply::Reply;
use super::request::HttpRequest;
use super::session::Session;
use super::sse::SseFormat;
use super::state::{Refused, ServerState};
use super::stream::Stream;
use crate::settings::Era;

/// The code that the official SDKs use for errors without their own code.
const SERVER_ERROR: i64 = -32000;
/// The code that they use for an unknown session.
pub(crate) const SESSION_NOT_FOUND: i64 = -32001;

/// Checks and accepts a message.
pub(crate) fn admit(state: &ServerState, request: HttpRequest) -> Result<Arc<Admitted>, Refused> {
    if !request.lists("accept", "application/json") || !request.lists("accept", "text/event-stream") {
        let message = "Not Acceptable: Client must accept both application/json and text/event-stream";
        return Err(state.refuse(StatusCode::NOT_ACCEPTABLE, &request, SERVER_ERROR, message));
    }
    if request.method() == Some("initialize") {
        let session =
            if state.settings().sessions { state.open_session(Protocol::Legacy) } else { state.shared_session() };
        return Ok(Arc::new(Admitted { request, protocol: Protocol::Legacy, session }));
    }
    if let Some(revision) = request.header(headers::PROTOCOL_VERSION)
        && !Era::LEGACY.contains(&revision)
    {
        let message = format!("Bad Request: Unsupported protocol version: {revision}");
        return Err(state.refuse(StatusCode::BAD_REQUEST, &request, SERVER_ERROR, &message));
    }
    let session = find_session(state, &request)?;
    Ok(Arc::new(Admitted { request, protocol: Protocol::Legacy, session }))
}

/// Opens the session's stream of unsolicited messages, or resumes any stream of the session.
pub(crate) fn get(state: &Arc<ServerState>, request: &HttpRequest) -> Result<Reply, Refused> {
    if !state.settings().sessions || !state.settings().era.is_legacy() || request.is_modern() {
        return Ok(Reply::empty(StatusCode::METHOD_NOT_ALLOWED).with(ALLOW, "POST"));
    }
    if !request.lists("accept", "text/event-stream") {
        let message = "Not Acceptable: Client must accept text/event-stream";
        return Err(state.refuse(StatusCode::NOT_ACCEPTABLE, request, SERVER_ERROR, message));
    }
    let session = find_session(state, request)?;
    let sse_format = SseFormat::legacy(&state.settings());
    let Some(last) = request.last_event_id() else {
        let (stream, after) = (Arc::clone(&session.stream), session.stream.delivered());
        return Ok(open(state, &session, stream, after, sse_format));
    };
    let found = Stream::parse_event_id(last).and_then(|(name, after)| Some((session.find_stream(name)?, after)));
    let Some((stream, after)) = found else {
        return Err(state.refuse(StatusCode::BAD_REQUEST, request, SERVER_ERROR, "Bad Request: Invalid event ID"));
    };
    Ok(open(state, &session, stream, after, sse_format))
}

/// Writes a stream to a GET response. Of several GETs for the session's stream, only the newest one gets messages.
fn open(state: &ServerState, session: &Session, stream: Arc<Stream>, after: u64, sse_format: SseFormat) -> Reply {
    let (reply, pieces) = Reply::events();
    let is_session_stream = stream.name() == session.stream.name();
    let taken_over = is_session_stream.then(|| session.take_over());
    state.spawn(async move {
        let replaced = async {
            match taken_over {
                Some(taken_over) => taken_over.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = sse_format.write_stream(&stream, after, &pieces) => {}
            () = replaced => {}
        }
    });
    reply
}

/// Ends a session.
pub(crate) fn delete(state: &ServerState, request: &HttpRequest) -> Result<Reply, Refused> {
    if !state.settings().sessions || !state.settings().era.is_legacy() || request.is_modern() {
        return Ok(Reply::empty(StatusCode::METHOD_NOT_ALLOWED).with(ALLOW, "POST"));
    }
    let session = find_session(state, request)?;
    state.forget_session(session.id());
    state.oracle.record(|counts| counts.sessions_deleted += 1);
    Ok(Reply::empty(StatusCode::OK))
}

fn find_session(state: &ServerState, request: &HttpRequest) -> Result<Arc<Session>, Refused> {
    match request.session() {
        _ if !state.settings().sessions => Ok(state.shared_session()),
        None => {
            let message = "Bad Request: Mcp-Session-Id header is required";
            Err(state.refuse(StatusCode::BAD_REQUEST, request, SERVER_ERROR, message))
        }
        Some(id) => state
            .find_session(id, Protocol::Legacy)
            .ok_or_else(|| state.refuse(StatusCode::NOT_FOUND, request, SESSION_NOT_FOUND, "Session not found")),
    }
}

/// Refuses a modern request on a legacy server.
pub(crate) fn refuse_modern(state: &ServerState, request: &HttpRequest) -> Refused {
    let revision = request.header(headers::PROTOCOL_VERSION).unwrap_or("none");
    let known = Era::LEGACY.join(", ");
    let message = format!("Bad Request: Unsupported protocol version: {revision} (supported versions: {known})");
    state.refuse(StatusCode::BAD_REQUEST, request, SERVER_ERROR, &message)
}

/// Refuses a body that is not one message.
pub(crate) fn refuse_unreadable(state: &ServerState, request: &HttpRequest) -> Refused {
    state.refuse(StatusCode::BAD_REQUEST, request, code::PARSE_ERROR, "Parse error")
}
