//! Every body ends in a line end, as encoders that write to files make them.

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "newline_after",
    row: "",
    does: "Answers with a line end after the JSON text (or the value).",
    value: "the text after it (a line feed)",
    runs: Runs::Always,
    strikes: HttpRequest::is_request,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    let executed = scene.execute().await?;
    let end = scene.value.as_str().unwrap_or("\n").to_owned();
    let messages = executed.messages.iter().map(|message| [message, end.as_bytes()].concat().into()).collect();
    Ok(scene.send(executed.admitted, messages).await)
}
