//! M66: a numeric id returns as a string.

use serde_json::Value;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "m66_id_type_changed",
    row: "M66",
    description: "Answers with the id as a string.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let mut executed = context.execute().await?;
    if let Ok(mut answer) = serde_json::from_slice::<Value>(&executed.answer()) {
        answer["id"] = Value::String(answer["id"].to_string());
        executed.messages.pop();
        executed.messages.push(answer.to_string().into());
    }
    Ok(context.send(executed.admitted, executed.messages).await)
}
