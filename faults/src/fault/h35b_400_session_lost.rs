//! H35b: the session has expired, and the server answers 400, as many servers do.

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h35b_400_session_lost",
    row: "H35b",
    description: "Drops the session and answers 400.",
    value: "",
    runs: Runs::Never,
    applies_to: |request| request.is_call() && request.session().is_some(),
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.state.forget_session(context.request.session().unwrap_or_default());
    let text = jsonrpc::error(&context.request.id(), -32000, "Bad Request: No valid session ID provided");
    Ok(Reply::json(StatusCode::BAD_REQUEST, text))
}
