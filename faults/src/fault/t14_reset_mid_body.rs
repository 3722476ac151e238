//! T14: the connection is reset after the head and half of the body. A primed stream can then be resumed.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;

use super::{Fault, FaultContext, Runs};
use crate::server::admitted::Protocol;
use crate::server::reply::{Piece, Reply};
use crate::server::state::Refused;
use crate::settings::Answers;
use crate::{Ending, HttpRequest};

pub(super) const FAULT: Fault = Fault {
    name: "t14_reset_mid_body",
    row: "T14",
    description: "Resets the connection after half of the body (or the value).",
    value: "bytes of the body (half)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let executed = context.execute().await?;
    let (reply, pieces, whole) = match (executed.admitted.protocol, executed.admitted.answer_form(&context.state)) {
        // HTTP+SSE has no body to cut; the answer is on the stream.
        (Protocol::HttpSse, _) => {
            context.send(executed.admitted, executed.messages).await;
            return Ok(Reply::Cut(Ending::Reset));
        }
        (_, Answers::Json) => {
            let text = executed.answer();
            let (reply, pieces) = Reply::pieces("application/json");
            (reply.with(CONTENT_LENGTH, &text.len().to_string()), pieces, text)
        }
        (_, Answers::Events) => {
            let sse_format = executed.admitted.sse_format(&context.state);
            let stream = executed.admitted.stream_of(&context.state, executed.messages.clone()).stream;
            let mut text = BytesMut::from(&sse_format.opening(&stream, 0).unwrap_or_default()[..]);
            for (number, message) in (1..).zip(executed.messages) {
                text.extend_from_slice(&sse_format.event(&stream, number, message));
            }
            let (reply, pieces) = Reply::events();
            (reply, pieces, text.freeze())
        }
    };
    let passes = context.value.as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(whole.len() / 2);
    let part: Bytes = whole.slice(..passes.min(whole.len()));
    // The channel has room for both.
    let _ = pieces.send(Piece::Bytes(part)).await;
    let _ = pieces.send(Piece::Cut(Ending::Reset)).await;
    Ok(reply)
}
