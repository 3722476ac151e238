//! H35: the modern way to say that there is no such method; a 404 that is not about a session.

use http::StatusCode;
use mendline_wire::code;

use super::{Fault, Runs, FaultContext};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;
use crate::server::jsonrpc;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "h35_404_method_not_found",
    row: "H35",
    description: "Answers 404 with a JSON-RPC error -32601.",
    value: "",
    runs: Runs::Never,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let text = jsonrpc::error(&context.request.id(), code::METHOD_NOT_FOUND, "no such method");
    Ok(Reply::json(StatusCode::NOT_FOUND, text))
}
