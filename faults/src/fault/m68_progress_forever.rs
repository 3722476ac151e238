//! M68: the call reports progress forever, so that no idle timeout ends it.

use std::sync::Arc;

use serde_json::json;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::jsonrpc;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "m68_progress_forever",
    row: "M68",
    description: "Reports progress forever and never answers.",
    value: "milliseconds between reports (20)",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

/// More than any test waits for.
const MOST: u64 = 1_000_000;

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let admitted = context.admit()?;
    context.run().await;
    let begun = admitted.empty_stream(&context.state);
    let (reporter, stream, call) = (Arc::clone(&admitted), Arc::clone(&begun.stream), Arc::clone(&begun.call));
    let (oracle, pause) = (Arc::clone(&context.state.oracle), context.millis(20));
    context.state.spawn(async move {
        let reporting = async {
            for done in 1..=MOST {
                tokio::time::sleep(pause).await;
                stream.push(jsonrpc::notification(
                    "notifications/message",
                    &json!({ "level": "info", "data": "still at it" }),
                ));
                reporter.progress(&stream, done, None);
            }
        };
        tokio::select! {
            () = reporting => {}
            () = call.cancelled() => oracle.record(|counts| counts.cancellations += 1),
        }
        stream.end();
    });
    Ok(context.stream(admitted, begun).await)
}
