//! M72: a list request is never answered.

use super::{Fault, FaultContext, Runs};
use crate::server::reply::Reply;
use crate::server::state::Refused;

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
    // The stream stays empty and never ends.
    Ok(admitted.deliver(&context.state, begun).await)
}
