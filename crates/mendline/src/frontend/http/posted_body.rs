//! Reads the body of a POST, within limits of size and time.
//!
//! A client has a fixed time, and a second more for each few kilobytes that it has sent. So a large message may come
//! over a slow line, and one byte per second may not.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body;
use mendline_core::defaults;
use mendline_wire::code;
use tokio::time::{Instant, timeout_at};

use super::response::{Answer, json_error};

/// The limits of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimits {
    /// Its size.
    pub(super) bytes: usize,
    /// The time for the first bytes.
    pub(super) time: Duration,
    /// The bytes for which there is a second more.
    pub(super) bytes_per_second: usize,
}

impl BodyLimits {
    /// The default times for bodies up to this size.
    pub(super) fn up_to(bytes: usize) -> BodyLimits {
        BodyLimits { bytes, time: defaults::GATEWAY_BODY, bytes_per_second: defaults::GATEWAY_BODY_RATE }
    }

    fn too_long(&self) -> Box<Answer> {
        let why = format!("the body is longer than {} bytes", self.bytes);
        refused(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, &why)
    }
}

/// Reads a body.
pub(super) async fn read<B: Body<Data = Bytes>>(
    headers: &HeaderMap,
    body: B,
    limits: BodyLimits,
) -> Result<Bytes, Box<Answer>> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limits.bytes) {
        return Err(limits.too_long());
    }
    let mut body = pin!(body);
    let mut text = BytesMut::new();
    let begin = Instant::now();
    loop {
        let earned = Duration::from_secs((text.len() / limits.bytes_per_second.max(1)) as u64);
        let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx));
        let Ok(frame) = timeout_at(begin + limits.time + earned, frame).await else {
            return Err(refused(StatusCode::REQUEST_TIMEOUT, code::INVALID_REQUEST, "the body comes too slowly"));
        };
        let Some(frame) = frame else { return Ok(text.freeze()) };
        let Ok(frame) = frame else {
            return Err(refused(StatusCode::BAD_REQUEST, code::PARSE_ERROR, "the body of the request is incomplete"));
        };
        if let Ok(data) = frame.into_data() {
            if text.len() + data.len() > limits.bytes {
                return Err(limits.too_long());
            }
            text.extend_from_slice(&data);
        }
    }
}

/// Refuses a body, of which a part is not read.
fn refused(status: StatusCode, code: i64, why: &str) -> Box<Answer> {
    let mut answer = json_error(status, code, why, None);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Box::new(answer)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http_body::Frame;
    use tokio::time::{Interval, interval};

    use super::*;

    /// A body that sends a piece at every tick.
    struct Pieces {
        interval: Interval,
        piece: usize,
        left: usize,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let this = self.get_mut();
            if this.left == 0 {
                return Poll::Ready(None);
            }
            std::task::ready!(this.interval.poll_tick(cx));
            let length = this.piece.min(this.left);
            this.left -= length;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; length])))))
        }
    }

    async fn outcome(piece: usize, total: usize, headers: &HeaderMap) -> Result<usize, StatusCode> {
        let body = Pieces { interval: interval(Duration::from_secs(1)), piece, left: total };
        let read = read(headers, body, BodyLimits::up_to(1 << 20)).await;
        read.map(|text| text.len()).map_err(|answer| answer.status())
    }

    #[tokio::test(start_paused = true)]
    async fn one_byte_per_second_is_too_slow() {
        assert_eq!(outcome(1, 20, &HeaderMap::new()).await, Ok(20));
        assert_eq!(outcome(1, 100, &HeaderMap::new()).await, Err(StatusCode::REQUEST_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn large_body_over_a_slow_line_is_read() {
        assert_eq!(outcome(8 * 1024, 1 << 20, &HeaderMap::new()).await, Ok(1 << 20));
    }

    #[tokio::test(start_paused = true)]
    async fn body_above_the_limit_is_refused_before_it_is_read() {
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from_static("1048577"))]);
        let begin = Instant::now();
        assert_eq!(outcome(1024, (1 << 20) + 1, &headers).await, Err(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert_eq!(outcome(64 * 1024, (1 << 20) + 1, &HeaderMap::new()).await, Err(StatusCode::PAYLOAD_TOO_LARGE));
    }
}
