//! H40: the server has no GET stream, which the specification allows.

use http::StatusCode;
use http::header::ALLOW;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h40_405_on_get",
    row: "H40",
    description: "Answers 405 to a GET that does not resume.",
    value: "",
    runs: Runs::Never,
    applies_to: HttpRequest::is_fresh_get,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(_scene: FaultContext) -> Result<Reply, Refused> {
    Ok(Reply::empty(StatusCode::METHOD_NOT_ALLOWED).with(ALLOW, "POST"))
}
