//! M69: the server was restarted as a version that supports the other era only and has no sessions.

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;
use crate::settings::{Era, Settings};

pub(super) const FAULT: Fault = Fault {
    name: "m69_era_flip",
    row: "M69",
    description: "Supports only the other era from now on and drops all sessions.",
    value: "",
    runs: Runs::Never,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let era = if context.request.is_modern() { Era::Legacy } else { Era::Modern };
    context.state.change_settings(Settings { era, ..context.state.settings() });
    context.state.forget_sessions();
    Ok(context.serve().await)
}
