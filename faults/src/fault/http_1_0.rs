//! The server answers in HTTP/1.0: no length and no chunks; the body ends with the connection.

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::{Answer, Content, Reply};
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "http_1_0",
    row: "",
    description: "Answers in HTTP/1.0 without a length and closes (only JSON over HTTP/1.1 without TLS).",
    value: "",
    runs: Runs::Always,
    applies_to: HttpRequest::is_request,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let reply = context.send(executed.admitted, executed.messages).await;
    Ok(match reply {
        Reply::Answer(Answer { status, headers, content: Content::Whole(text) }) => {
            let mut head = format!("HTTP/1.0 {status}\r\n");
            for (name, value) in &headers {
                head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
            }
            Reply::FinalBytes([head.as_bytes(), b"\r\n", &text[..]].concat().into())
        }
        other => other,
    })
}
