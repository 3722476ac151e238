//! The session has expired, and a JSON-RPC error with status 200 reports it.

use super::{Fault, FaultContext, Runs};
use crate::server::jsonrpc;
use crate::server::legacy::SESSION_NOT_FOUND;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "session_lost_in_body",
    row: "",
    description: "Drops the session and answers 200 with a JSON-RPC error.",
    value: "",
    runs: Runs::Never,
    applies_to: |request| request.is_call() && request.session().is_some(),
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let admitted = context.admit()?;
    context.state.forget_session(context.request.session().unwrap_or_default());
    let text = jsonrpc::error(&context.request.id(), SESSION_NOT_FOUND, "Session not found");
    Ok(context.send(admitted, vec![text]).await)
}
