//! M63: the server sends the response twice.

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "m63_duplicate_response",
    row: "M63",
    description: "Sends the response twice.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let mut executed = context.execute().await?;
    executed.messages.push(executed.answer());
    Ok(context.send(executed.admitted, executed.messages).await)
}
