//! M69: the server was restarted as another version of itself, which speaks the other era and knows no session.

use super::{Fault, Runs, Scene};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::site::Refused;
use crate::settings::{Era, Settings};

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "m69_era_flip",
    row: "M69",
    does: "Speaks only the other era from this request on, and forgets all sessions.",
    value: "",
    runs: Runs::Never,
    strikes: HttpRequest::is_call,
    answer: |scene| Box::pin(answer(scene)),
};

async fn answer(scene: Scene) -> Result<Reply, Refused> {
    let era = if scene.request.is_modern() { Era::Legacy } else { Era::Modern };
    scene.site.become_like(Settings { era, ..scene.site.settings() });
    scene.site.forget_sessions();
    Ok(scene.serve().await)
}
