//! S43: one event that is larger than anybody wants to hold.

use bytes::Bytes;
use serde_json::json;

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;
use crate::server::words;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "s43_event_over_limit",
    row: "S43",
    does: "Answers with an event of 17 MiB (or the value).",
    value: "bytes (17 MiB)",
    runs: Runs::Always,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

const DEFAULT: u64 = 17 << 20;
/// A slip in a test should not take all memory.
const MOST: u64 = 256 << 20;

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    let executed = scene.execute().await?;
    let length = usize::try_from(scene.number(DEFAULT).min(MOST)).unwrap_or(0);
    let result = json!({ "content": [{ "type": "text", "text": "x".repeat(length) }] });
    let answer: Bytes = words::result(&scene.request.id(), &executed.admitted.speech.result(result));
    let begun = executed.admitted.stream_of(&scene.site, [answer]);
    Ok(scene.stream(executed.admitted, begun).await)
}
