//! H29: a gateway timed out while it waited for the server.

use bytes::Bytes;
use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h29_504",
    row: "H29",
    description: "Answers 504 with a gateway page.",
    value: "another status, such as 524",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    let status = context.value.as_u64().and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok());
    Ok(Reply::whole(
        status.unwrap_or(StatusCode::GATEWAY_TIMEOUT),
        Some("text/html"),
        Bytes::from_static(b"<html><head><title>504 Gateway Time-out</title></head><body>504</body></html>"),
    ))
}
