//! M67: the server sends a flood of notifications before the response.

use serde_json::json;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "m67_notification_storm",
    row: "M67",
    description: "Sends 1000 notifications (or the value) before the response.",
    value: "count (1000)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

/// Below the limit of a stream, so that a slow client still gets the first ones.
const MOST: u64 = 9_000;

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let storm = (0..context.number(1_000).min(MOST)).map(|number| {
        jsonrpc::notification("notifications/message", &json!({ "level": "info", "data": format!("number {number}") }))
    });
    Ok(context.send(executed.admitted, storm.chain(executed.messages).collect()).await)
}
