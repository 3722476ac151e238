//! H30: the client sent too many requests, and the response names a time to retry.

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h30_429_retry_after",
    row: "H30",
    description: "Answers 429 with Retry-After, in seconds or as a date, or with a rate limit.",
    value: "seconds (1), or {\"date\": seconds}, {\"quota\": seconds}, {\"unix\": seconds}",
    runs: Runs::Never,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    let (name, value) = context.retry_hint();
    Ok(Reply::empty(StatusCode::TOO_MANY_REQUESTS).with(name, &value))
}
