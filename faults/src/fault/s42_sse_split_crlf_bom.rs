//! S42: the event stream is valid but unusual: a byte order mark, CRLF, and pieces of one byte.

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "s42_sse_split_crlf_bom",
    row: "S42",
    description: "Answers with events in pieces of one byte, with CRLF and a byte order mark.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let admitted = context.admit()?;
    let begun = admitted.begin(&context.state);
    let mut sse_format = admitted.sse_format(&context.state);
    sse_format.is_odd = true;
    Ok(admitted.deliver_events(&context.state, begun, sse_format))
}
