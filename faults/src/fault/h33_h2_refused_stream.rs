//! H33: the server refuses one stream before it processes the request.

use http::Version;

use super::{Fault, FaultContext, Runs};
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h33_h2_refused_stream",
    row: "H33",
    description: "Resets the stream with REFUSED_STREAM (HTTP/2 only).",
    value: "",
    runs: Runs::Never,
    applies_to: |request| request.is_call() && request.version == Version::HTTP_2,
    answer: |context| Box::pin(answer(context)),
};

async fn answer(_scene: FaultContext) -> Result<Reply, Refused> {
    Ok(Reply::RefusedStream)
}
