//! H36: the server reports that a header and the body disagree.

use http::StatusCode;
use mendline_wire::code;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h36_400_header_mismatch",
    row: "H36",
    description: "Answers 400 with a JSON-RPC error -32020.",
    value: "",
    runs: Runs::Never,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let text = jsonrpc::error(&context.request.id(), code::HEADER_MISMATCH, "a header and the body disagree");
    Ok(Reply::json(StatusCode::BAD_REQUEST, text))
}
