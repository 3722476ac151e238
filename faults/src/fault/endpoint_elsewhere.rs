//! The HTTP+SSE stream names an endpoint at a foreign origin.

use super::{Fault, FaultContext, Runs};
use crate::server::http_sse;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "endpoint_elsewhere",
    row: "",
    description: "Names an endpoint at a foreign origin, which counts requests (HTTP+SSE only).",
    value: "",
    runs: Runs::Never,
    applies_to: |request| request.path == "/sse" && request.is_fresh_get(),
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    Ok(http_sse::open(&context.state, &format!("http://{}", context.state.elsewhere)))
}
