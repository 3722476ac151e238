//! A POST at the URL of the HTTP+SSE stream answers `initialize`, and refuses every other request.

use http::{Method as Verb, StatusCode};
use mendline_wire::code;

use super::{Fault, FaultContext, Runs};
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "only_handshake_at_sse_url",
    row: "",
    description: "Answers a POST at /sse: initialize as over Streamable HTTP, other requests with an error -32600 or the value.",
    value: "status (200 with the error)",
    runs: Runs::Never,
    applies_to: |request| request.path == "/sse" && request.verb == Verb::POST,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    if context.request.method() == Some("initialize") {
        return Ok(context.admit()?.perform(&context.state).await);
    }
    if !context.request.is_request() {
        return Ok(Reply::empty(StatusCode::ACCEPTED));
    }
    let status = context.value.as_u64().and_then(|value| StatusCode::from_u16(u16::try_from(value).ok()?).ok());
    let error = || jsonrpc::error(&context.request.id(), code::INVALID_REQUEST, "toolset does not exist");
    Ok(status.map_or_else(|| Reply::json(StatusCode::OK, error()), Reply::empty))
}
