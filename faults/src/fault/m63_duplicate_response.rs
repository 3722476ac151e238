//! M63: the server answers twice.

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "m63_duplicate_response",
    row: "M63",
    does: "Says the answer twice.",
    value: "",
    runs: Runs::Always,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    let mut executed = scene.execute().await?;
    executed.messages.push(executed.answer());
    Ok(scene.send(executed.admitted, executed.messages).await)
}
