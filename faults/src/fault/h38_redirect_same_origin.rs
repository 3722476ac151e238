//! H38: the endpoint has moved within its origin.

use http::StatusCode;
use http::header::LOCATION;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h38_redirect_same_origin",
    row: "H38",
    description: "Answers 307 (or the value) to /moved/mcp, which works.",
    value: "status (307)",
    runs: Runs::Never,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

const MOVED: &str = "/moved/mcp";

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    if context.request.path == MOVED {
        // The client has followed the redirect.
        return Ok(context.serve().await);
    }
    let status = u16::try_from(context.number(307)).ok().and_then(|status| StatusCode::from_u16(status).ok());
    Ok(Reply::empty(status.unwrap_or(StatusCode::TEMPORARY_REDIRECT)).with(LOCATION, MOVED))
}
