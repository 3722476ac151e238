//! T13: the connection is reset after the whole request was read and before a response is sent.

use super::{Fault, FaultContext, Runs};
use crate::server::reply::Reply;
use crate::server::state::Refused;
use crate::{Ending, HttpRequest};

pub(super) const FAULT: Fault = Fault {
    name: "t13_reset_before_headers",
    row: "T13",
    description: "Resets the connection instead of answering.",
    value: "",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    Ok(Reply::Cut(Ending::Reset))
}
