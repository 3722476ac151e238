//! H35: the method does not exist, which the modern era reports by a 404. The session is not lost.

use http::StatusCode;
use mendline_wire::code;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

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
