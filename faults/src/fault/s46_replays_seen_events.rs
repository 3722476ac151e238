//! S46: a resumed stream repeats events that the client has already received.

use http::HeaderName;
use mendline_wire::headers::LAST_EVENT_ID;

use super::{Fault, FaultContext, Runs};
use crate::HttpRequest;
use crate::server::legacy;
use crate::server::reply::Reply;
use crate::server::state::Refused;
use crate::server::stream::Stream;

pub(super) const FAULT: Fault = Fault {
    name: "s46_replays_seen_events",
    row: "S46",
    description: "Answers a resuming GET with the stream from its beginning.",
    value: "",
    runs: Runs::Never,
    applies_to: HttpRequest::is_resume,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(mut context: FaultContext) -> Result<Reply, Refused> {
    let name = context.request.last_event_id().and_then(Stream::parse_event_id).map(|(name, _)| name.to_owned());
    let from_the_start = name.and_then(|name| Stream::new(name).event_id(0).parse().ok());
    if let (Some(id), Ok(header)) = (from_the_start, LAST_EVENT_ID.parse::<HeaderName>()) {
        context.request.headers.insert(header, id);
    }
    legacy::get(&context.state, &context.request)
}
