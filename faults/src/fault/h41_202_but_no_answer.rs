//! H41: a request is accepted as if it were a notification, and never answered.

use http::StatusCode;

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "h41_202_but_no_answer",
    row: "H41",
    does: "Answers 202 without a body.",
    value: "",
    runs: Runs::AsTold,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    scene.run().await;
    Ok(Reply::empty(StatusCode::ACCEPTED))
}
