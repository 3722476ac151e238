//! M64: the response is late, and the server ignores cancellations.

use std::sync::Arc;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "m64_late_response",
    row: "M64",
    description: "Delays the response and ignores cancellations.",
    value: "milliseconds (1000)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let begun = executed.admitted.empty_stream(&context.state);
    let (stream, messages, late) = (Arc::clone(&begun.stream), executed.messages, context.millis(1_000));
    context.state.spawn(async move {
        tokio::time::sleep(late).await;
        messages.into_iter().for_each(|message| stream.push(message));
        stream.end();
    });
    Ok(executed.admitted.deliver(&context.state, begun).await)
}
