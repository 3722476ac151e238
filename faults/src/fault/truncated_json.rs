//! A body that is whole to HTTP and cut to JSON: whoever made it stopped in the middle.

use http::StatusCode;

use super::{Fault, Runs, FaultContext};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "truncated_json",
    row: "",
    description: "Answers with the first half of the JSON text, and a length that fits it.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let text = context.execute().await?.answer();
    Ok(Reply::json(StatusCode::OK, text.slice(..text.len() / 2)))
}
