//! H41: the server accepts a request like a notification and never answers it.

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

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
