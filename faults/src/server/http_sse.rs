//! HTTP+SSE of 2024-11-05: one SSE stream, which first names the endpoint for messages and then carries every answer.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use mendline_wire::SseEvent;

use super::admitted::{Admitted, Protocol};
use super::reply::{Piece, Reply};
use super::request::HttpRequest;
use super::sse::{SseFormat, encoded};
use super::state::{Refused, ServerState};

/// The path for messages.
pub(crate) const PATH: &str = "/messages";
const QUERY: &str = "session_id=";

/// Opens the SSE stream. `origin` is prepended to the endpoint's path; it is empty without a fault.
pub(crate) fn open(state: &Arc<ServerState>, origin: &str) -> Reply {
    let session = state.open_session(Protocol::HttpSse);
    let sse_format = SseFormat::plain(&state.settings());
    let endpoint = SseEvent {
        event: Some(Bytes::from_static(b"endpoint")),
        data: Some(format!("{origin}{PATH}?{QUERY}{}", session.id()).into()),
        ..SseEvent::default()
    };
    let (reply, pieces) = Reply::events();
    let shared = Arc::clone(state);
    state.spawn(async move {
        if pieces.send(Piece::Bytes(encoded(&endpoint))).await.is_ok() {
            sse_format.write_stream(&session.stream, 0, &pieces).await;
        }
        // A session of this transport ends with its stream.
        shared.forget_session(session.id());
    });
    reply
}

/// Checks and accepts a message.
pub(crate) fn admit(state: &ServerState, request: HttpRequest) -> Result<Arc<Admitted>, Refused> {
    let id = request.query.split('&').find_map(|pair| pair.strip_prefix(QUERY)).unwrap_or_default();
    let Some(session) = state.find_session(id, Protocol::HttpSse) else {
        let message = "Could not find session";
        return Err(state.refuse(StatusCode::NOT_FOUND, &request, super::legacy::SESSION_NOT_FOUND, message));
    };
    Ok(Arc::new(Admitted { request, protocol: Protocol::HttpSse, session }))
}
