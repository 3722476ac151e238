//! H34: the session has expired, and the server answers 404 as the specification requires.

use super::{Fault, FaultContext, Runs};
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h34_404_session_expired",
    row: "H34",
    description: "Drops the session and answers 404.",
    value: "",
    runs: Runs::Never,
    applies_to: |request| request.is_call() && request.session().is_some(),
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.state.forget_session(context.request.session().unwrap_or_default());
    Ok(context.serve().await)
}
