//! T13: the connection is reset when the whole request was read and nothing was said.

use super::{Fault, Runs, Scene};
use crate::server::reply::Reply;
use crate::server::site::Refused;
use crate::{HttpRequest, Ending};

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "t13_reset_before_headers",
    row: "T13",
    does: "Resets the connection instead of answering.",
    value: "",
    runs: Runs::AsTold,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    scene.run().await;
    Ok(Reply::Cut(Ending::Reset))
}
