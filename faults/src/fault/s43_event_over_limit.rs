//! S43: one event exceeds the size limit of a client.

use bytes::Bytes;
use serde_json::json;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "s43_event_over_limit",
    row: "S43",
    description: "Answers with an event of 17 MiB (or the value).",
    value: "bytes (17 MiB)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

const DEFAULT: u64 = 17 << 20;
/// The upper bound, so that a mistake in a test does not exhaust the memory.
const MOST: u64 = 256 << 20;

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let length = usize::try_from(context.number(DEFAULT).min(MOST)).unwrap_or(0);
    let result = json!({ "content": [{ "type": "text", "text": "x".repeat(length) }] });
    let answer: Bytes = jsonrpc::result(&context.request.id(), &executed.admitted.protocol.result(result));
    let begun = executed.admitted.stream_of(&context.state, [answer]);
    Ok(context.stream(executed.admitted, begun).await)
}
