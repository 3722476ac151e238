//! H41: a request is accepted as if it were a notification, and never answered.

use http::StatusCode;

use super::{Fault, Runs, FaultContext};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "h41_202_but_no_answer",
    row: "H41",
    description: "Answers 202 without a body.",
    value: "",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    Ok(Reply::empty(StatusCode::ACCEPTED))
}
