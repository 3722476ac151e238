//! The body is complete in HTTP, but its JSON is truncated.

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "truncated_json",
    row: "",
    description: "Answers with the first half of the JSON text and a matching length.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let text = context.execute().await?.answer();
    Ok(Reply::json(StatusCode::OK, text.slice(..text.len() / 2)))
}
