//! H27: a gateway cannot reach the server and shows its own page.

use bytes::Bytes;
use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h27_502",
    row: "H27",
    description: "Answers 502 with a gateway page.",
    value: "",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    Ok(Reply::whole(
        StatusCode::BAD_GATEWAY,
        Some("text/html"),
        Bytes::from_static(b"<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"),
    ))
}
