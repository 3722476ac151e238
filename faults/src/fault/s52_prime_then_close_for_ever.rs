//! S52: the server primes and closes every stream, also the resumed ones. Each resumption succeeds with a new id and
//! carries no message, so a client that counts failures only would loop forever.

use bytes::Bytes;
use mendline_wire::SseEvent;

use super::{Fault, FaultContext, Runs};
use crate::server::reply::{Piece, Reply};
use crate::server::sse::encoded;
use crate::server::state::Refused;
use crate::server::stream::Stream;

pub(super) const FAULT: Fault = Fault {
    name: "s52_prime_then_close_for_ever",
    row: "S52",
    description: "Primes and closes every stream, also resumed ones.",
    value: "the retry in milliseconds (50)",
    runs: Runs::PerRule,
    applies_to: |request| request.is_call() || request.is_resume(),
    answer: |context| Box::pin(answer(context)),
};

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    context.run().await;
    let seen = context.request.last_event_id().and_then(Stream::parse_event_id);
    let id = match seen {
        Some((name, number)) => Stream::new(name.to_owned()).event_id(number + 1),
        None => Stream::new(context.state.next_name("s")).event_id(0),
    };
    let prime = SseEvent {
        id: Some(id.into()),
        data: Some(Bytes::new()),
        retry: Some(context.number(50)),
        ..SseEvent::default()
    };
    let (reply, pieces) = Reply::events();
    // The channel has room for this. The response ends when the sender is dropped.
    let _ = pieces.send(Piece::Bytes(encoded(&prime))).await;
    Ok(reply)
}
