//! T15: the connection ends with a FIN and without a response.

use super::{Fault, FaultContext, Runs};
use crate::server::reply::Reply;
use crate::server::state::Refused;
use crate::{Ending, HttpRequest};

pub(super) const FAULT: Fault = Fault {
    name: "t15_eof_without_response",
    row: "T15",
    description: "Closes the connection instead of answering.",
    value: "",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    Ok(Reply::Cut(Ending::Fin))
}
