//! Every answer is indented JSON, which is valid but does not fit into one line of stdio.

use bytes::Bytes;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::Reply;
use crate::server::state::Refused;
use crate::settings::Answers;

pub(super) const FAULT: Fault = Fault {
    name: "pretty_json",
    row: "",
    description: "Answers with indented JSON: as a body, or as an event of several data lines.",
    value: "lf, crlf or tab (lf)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_request,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let is_events = executed.admitted.answer_form(&context.state) == Answers::Events;
    let style = context.value.as_str().unwrap_or("lf").to_owned();
    // In an event, only a line feed separates data lines.
    let style = if is_events && style == "crlf" { "lf" } else { &style };
    let messages = executed.messages.iter().map(|message| pretty(message, style)).collect();
    Ok(context.send(executed.admitted, messages).await)
}

fn pretty(message: &Bytes, style: &str) -> Bytes {
    let Ok(value) = serde_json::from_slice::<Value>(message) else { return message.clone() };
    let mut out = Vec::new();
    let indent: &[u8] = if style == "tab" { b"\t" } else { b"  " };
    let mut writer = Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(indent));
    if value.serialize(&mut writer).is_err() {
        return message.clone();
    }
    let text = String::from_utf8_lossy(&out);
    // Line ends inside of strings are escaped, so all of these are between tokens.
    Bytes::from(if style == "crlf" { text.replace('\n', "\r\n") } else { text.into_owned() })
}
