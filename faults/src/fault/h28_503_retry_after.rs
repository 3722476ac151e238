//! H28: the server is unavailable and names a time to retry.

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h28_503_retry_after",
    row: "H28",
    description: "Answers 503 with Retry-After, in seconds or as a date, or with a rate limit.",
    value: "seconds (1), or {\"date\": seconds}, {\"quota\": seconds}, {\"unix\": seconds}",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    let (name, value) = context.retry_hint();
    Ok(Reply::empty(StatusCode::SERVICE_UNAVAILABLE).with(name, &value))
}
