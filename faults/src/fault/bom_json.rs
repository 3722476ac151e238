//! Every body begins with a byte order mark.

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "bom_json",
    row: "",
    description: "Answers with a byte order mark before the JSON text.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_request,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let messages = executed.messages.iter().map(|message| [b"\xef\xbb\xbf", &message[..]].concat().into()).collect();
    Ok(context.send(executed.admitted, messages).await)
}
