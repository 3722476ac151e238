//! M67: the server says far more than anybody wants to know, and then the answer.

use serde_json::json;

use super::{Fault, Runs, FaultContext};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;
use crate::server::jsonrpc;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "m67_notification_storm",
    row: "M67",
    description: "Says a thousand notifications (or the value) before the answer.",
    value: "how many (1000)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

/// As many as a stream keeps, so that the first ones are still there for whoever reads slowly.
const MOST: u64 = 9_000;

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let storm = (0..context.number(1_000).min(MOST)).map(|number| {
        jsonrpc::notification("notifications/message", &json!({ "level": "info", "data": format!("number {number}") }))
    });
    Ok(context.send(executed.admitted, storm.chain(executed.messages).collect()).await)
}
