//! H26: the server fails without details.

use bytes::Bytes;
use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h26_500",
    row: "H26",
    description: "Answers 500 in plain text.",
    value: "",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    Ok(Reply::whole(
        StatusCode::INTERNAL_SERVER_ERROR,
        Some("text/plain"),
        Bytes::from_static(b"Internal Server Error"),
    ))
}
