//! M65: the response is complete but not valid JSON. Its id can still be seen.

use bytes::Bytes;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "m65_malformed_json",
    row: "M65",
    description: "Sends a response that is not valid JSON.",
    value: "",
    runs: Runs::PerRule,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let admitted = context.admit()?;
    context.run().await;
    let id = context.request.id();
    let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[}}}}"#, String::from_utf8_lossy(&id));
    Ok(context.send(admitted, vec![Bytes::from(text)]).await)
}
