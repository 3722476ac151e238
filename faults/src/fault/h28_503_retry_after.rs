//! H28: the server is not available, and says when it will be.

use http::StatusCode;
use http::header::RETRY_AFTER;

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "h28_503_retry_after",
    row: "H28",
    does: "Answers 503 with Retry-After, in seconds or as a date.",
    value: "seconds (1), or {\"date\": seconds}",
    runs: Runs::AsTold,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    scene.run().await;
    Ok(Reply::empty(StatusCode::SERVICE_UNAVAILABLE).with(RETRY_AFTER, &scene.retry_after()))
}
