//! M62: the server sends responses to unknown ids before the real one.

use bytes::Bytes;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "m62_unknown_id",
    row: "M62",
    description: "Sends responses to unknown ids before the real one.",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

const UNMATCHED: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":999999999999,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":"unknown","result":{"content":[]}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":424242,"progress":1}}"#,
];

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let unmatched = UNMATCHED.iter().map(|text| Bytes::from_static(text.as_bytes()));
    Ok(context.send(executed.admitted, unmatched.chain(executed.messages).collect()).await)
}
