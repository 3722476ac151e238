//! The body is correct, but its media type is wrong.

use http::StatusCode;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "wrong_content_type",
    row: "",
    description: "Answers with the correct JSON as text/plain.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let text = context.execute().await?.answer();
    Ok(Reply::whole(StatusCode::OK, Some("text/plain"), text))
}
