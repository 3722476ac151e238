//! M64: the answer is ready and comes too late. Cancelling does not help: the server does not listen.

use std::sync::Arc;

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "m64_late_response",
    row: "M64",
    does: "Holds the answer back, deaf to cancellations.",
    value: "milliseconds (1000)",
    runs: Runs::Always,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    let executed = scene.execute().await?;
    let begun = executed.admitted.empty_stream(&scene.site);
    let (stream, messages, late) = (Arc::clone(&begun.stream), executed.messages, scene.millis(1_000));
    scene.site.spawn(async move {
        tokio::time::sleep(late).await;
        messages.into_iter().for_each(|message| stream.push(message));
        stream.end();
    });
    Ok(executed.admitted.deliver(&scene.site, begun).await)
}
