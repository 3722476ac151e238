//! A session that is lost in a third way: the status is 200, and the JSON-RPC error in the body says it.

use super::{Fault, Runs, Scene};
use crate::server::legacy::SESSION_NOT_FOUND;
use crate::server::reply::Reply;
use crate::server::site::Refused;
use crate::server::words;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "session_lost_in_body",
    row: "",
    does: "Forgets the session and answers 200 with an error that says so.",
    value: "",
    runs: Runs::Never,
    strikes: |request| request.is_call() && request.session().is_some(),
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    let admitted = scene.admit()?;
    scene.site.forget_session(scene.request.session().unwrap_or_default());
    let text = words::error(&scene.request.id(), SESSION_NOT_FOUND, "Session not found");
    Ok(scene.send(admitted, vec![text]).await)
}
