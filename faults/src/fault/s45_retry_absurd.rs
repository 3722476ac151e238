//! S45: the server closes a primed stream, which is allowed, and asks for a retry delay of zero or of days.

use bytes::Bytes;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::reply::{Piece, Reply};
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "s45_retry_absurd",
    row: "S45",
    description: "Primes with this retry and closes; the answer comes when the client resumes.",
    value: "the retry in milliseconds (0)",
    runs: Runs::Always,
    applies_to: HttpRequest::is_call,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    let admitted = context.admit()?;
    let begun = admitted.begin(&context.state);
    let mut sse_format = admitted.sse_format(&context.state);
    sse_format.prime = true;
    sse_format.retry_ms = Some(context.number(0));
    let (reply, pieces) = Reply::events();
    let opening: Bytes = sse_format.opening(&begun.stream, 0).unwrap_or_default();
    // The channel has room for this. The response ends when the sender is dropped.
    let _ = pieces.send(Piece::Bytes(opening)).await;
    Ok(reply)
}
