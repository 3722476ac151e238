//! Every body ends with a line end, as many encoders write it.

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "newline_after",
    row: "",
    description: "Answers with a line end (or the value) after the JSON text.",
    value: "the appended text (a line feed)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_request,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let end = context.value.as_str().unwrap_or("\n").to_owned();
    let messages = executed.messages.iter().map(|message| [message, end.as_bytes()].concat().into()).collect();
    Ok(context.send(executed.admitted, messages).await)
}
