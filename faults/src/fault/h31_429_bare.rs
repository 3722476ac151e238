//! H31: the client sent too many requests, and the response does not name a time to retry.

use bytes::Bytes;
use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h31_429_bare",
    row: "H31",
    description: "Answers 429 without Retry-After.",
    value: "",
    runs: Runs::Never,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    Ok(Reply::whole(StatusCode::TOO_MANY_REQUESTS, Some("text/plain"), Bytes::from_static(b"Too Many Requests")))
}
