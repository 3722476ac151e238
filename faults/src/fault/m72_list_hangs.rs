//! M72: a list is asked for and never comes.

use super::{Fault, Runs, FaultContext};
use crate::server::reply::Reply;
use crate::server::state::Refused;

/// See the module.
pub(super) const FAULT: Fault = Fault {
    name: "m72_list_hangs",
    row: "M72",
    description: "Never answers a tools/list.",
    value: "",
    runs: Runs::Never,
    applies_to: |request| request.method() == Some("tools/list"),
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let admitted = context.admit()?;
    let begun = admitted.empty_stream(&context.state);
    // The stream is never said anything on, and never ends.
    Ok(admitted.deliver(&context.state, begun).await)
}
