//! H40: there is no GET stream, which is the server's right.

use http::StatusCode;
use http::header::ALLOW;

use super::{Fault, Runs, FaultContext};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

/// See the module.
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
