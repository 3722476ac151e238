//! T15: the connection ends properly, without a response.

use super::{Fault, Runs, Scene};
use crate::server::reply::Reply;
use crate::server::site::Refused;
use crate::{HttpRequest, Ending};

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "t15_eof_without_response",
    row: "T15",
    does: "Closes the connection instead of answering.",
    value: "",
    runs: Runs::AsTold,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    scene.run().await;
    Ok(Reply::Cut(Ending::Fin))
}
