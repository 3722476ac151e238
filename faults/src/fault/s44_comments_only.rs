//! S44: the stream carries comments forever and never an event.

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::{Piece, Reply};
use crate::server::sse::comment;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "s44_comments_only",
    row: "S44",
    description: "Answers with a stream of comments that never ends.",
    value: "milliseconds between them (20)",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    let pause = context.millis(20);
    let (reply, pieces) = Reply::events();
    context.state.spawn(async move {
        // The loop ends when the client leaves.
        while pieces.send(Piece::Bytes(comment())).await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    });
    Ok(reply)
}
