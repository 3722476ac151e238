//! S47: the server refuses to resume a stream that it has primed.

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "s47_resume_refused",
    row: "S47",
    description: "Answers a resuming GET with 400 (or the value).",
    value: "status (400)",
    runs: Runs::Never,
    applies_to: HttpRequest::is_resume,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let status = u16::try_from(context.number(400)).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let text = jsonrpc::error(b"null", -32000, "Bad Request: Invalid event ID");
    Ok(Reply::json(status.unwrap_or(StatusCode::BAD_REQUEST), text))
}
