//! H37: a gateway demands a login by an HTML page.

use bytes::Bytes;
use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h37_html_instead_of_json",
    row: "H37",
    description: "Answers 200 with an HTML page.",
    value: "",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    Ok(Reply::whole(
        StatusCode::OK,
        Some("text/html"),
        Bytes::from_static(b"<!doctype html><title>Sign in</title><p>Please sign in."),
    ))
}
