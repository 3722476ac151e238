//! H32: the server sends GOAWAY with a stream id below this request, so that the request counts as unprocessed.

use bytes::{BufMut, Bytes, BytesMut};
use http::Version;

use super::{Fault, FaultContext, Runs};
use crate::server::reply::Reply;
use crate::server::state::Refused;

pub(super) const FAULT: Fault = Fault {
    name: "h32_h2_goaway",
    row: "H32",
    description: "Sends GOAWAY with a stream id below the request and closes (HTTP/2 only).",
    value: "",
    runs: Runs::Never,
    applies_to: |request| request.is_call() && request.version == Version::HTTP_2,
    answer: |context| Box::pin(answer(context)),
};

const FRAME_LENGTH: u64 = 8;
const GOAWAY: u8 = 7;
const NO_ERROR: u32 = 0;

async fn answer(context: FaultContext) -> Result<Reply, Refused> {
    Ok(Reply::FinalBytes(goaway_before(context.request.sequence)))
}

/// Streams of a client are 1, 3, 5, …, one per request, so the id before the n-th request is known.
fn goaway_before(sequence: u64) -> Bytes {
    let last_stream = u32::try_from(sequence.saturating_mul(2).saturating_sub(3)).unwrap_or(0);
    let mut frame = BytesMut::with_capacity(17);
    frame.put_uint(FRAME_LENGTH, 3);
    frame.put_u8(GOAWAY);
    frame.put_u8(0);
    frame.put_u32(0);
    frame.put_u32(last_stream);
    frame.put_u32(NO_ERROR);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goaway_names_the_stream_before_the_request() {
        assert_eq!(&goaway_before(1)[..], [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(goaway_before(2)[12], 1);
        assert_eq!(goaway_before(3)[12], 3);
    }
}
