//! Encodes messages as an event stream.
//!
//! An [`SseFormat`] defines the events of one response: with or without ids, primed or not, with which line ends and in
//! which pieces. The settings choose a regular format and faults an unusual one. [`SseFormat::write_stream`] writes a
//! stream until it ends or the client has gone.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mendline_wire::{SseEncoder, SseEvent};
use tokio::time::{Instant, sleep_until};

use super::reply::{Piece, Pieces};
use super::stream::{Next, Stream};
use crate::settings::Settings;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The format of events.
#[derive(Clone, Debug)]
pub(crate) struct SseFormat {
    /// True if every event has an id.
    pub(crate) ids: bool,
    /// True if the first event has an id and no data.
    pub(crate) prime: bool,
    /// The `retry` of the first event.
    pub(crate) retry_ms: Option<u64>,
    /// The interval of comments while nothing else is written.
    pub(crate) comment: Option<Duration>,
    /// True for CRLF, a byte order mark at the start, and pieces of one byte.
    pub(crate) is_odd: bool,
}

/// The reason why writing a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The stream has ended.
    Complete,
    /// The client left before the end.
    ClientLeft,
}

impl SseFormat {
    /// The format of the legacy era for these settings.
    pub(crate) fn legacy(settings: &Settings) -> SseFormat {
        let can_resume = settings.ids && settings.sessions;
        SseFormat {
            ids: can_resume,
            prime: can_resume && settings.prime,
            retry_ms: settings.retry_ms.filter(|_| can_resume),
            comment: settings.comment_ms.map(Duration::from_millis),
            is_odd: false,
        }
    }

    /// The format of the modern era and of HTTP+SSE, which have no ids.
    pub(crate) fn plain(settings: &Settings) -> SseFormat {
        SseFormat {
            ids: false,
            prime: false,
            retry_ms: None,
            comment: settings.comment_ms.map(Duration::from_millis),
            is_odd: false,
        }
    }

    /// Writes the messages of a stream after this number. Closed `pieces` mean that the client has gone.
    pub(crate) async fn write_stream(&self, stream: &Stream, mut after: u64, pieces: &Pieces) -> StreamEnd {
        let mut changed = stream.watch();
        if self.is_odd && !self.put(pieces, Bytes::from_static(BYTE_ORDER_MARK)).await {
            return StreamEnd::ClientLeft;
        }
        if let Some(opening) = self.opening(stream, after)
            && !self.put(pieces, opening).await
        {
            return StreamEnd::ClientLeft;
        }
        loop {
            changed.mark_unchanged();
            match stream.next(after) {
                Next::Message(number, message) => {
                    if !self.put(pieces, self.event(stream, number, message)).await {
                        return StreamEnd::ClientLeft;
                    }
                    stream.mark_delivered(number);
                    after = number;
                }
                Next::Ended => return StreamEnd::Complete,
                Next::NotYet => {
                    let is_connected = tokio::select! {
                        _ = changed.changed() => true,
                        () = pieces.closed() => false,
                        () = self.comment_is_due() => self.put(pieces, comment()).await,
                    };
                    if !is_connected {
                        return StreamEnd::ClientLeft;
                    }
                }
            }
        }
    }

    /// Returns the first event of a response, if the format has one.
    pub(crate) fn opening(&self, stream: &Stream, after: u64) -> Option<Bytes> {
        let opening = SseEvent {
            id: self.prime.then(|| stream.event_id(after).into()),
            data: self.prime.then(Bytes::new),
            retry: self.retry_ms,
            ..SseEvent::default()
        };
        (opening != SseEvent::default()).then(|| encoded(&opening))
    }

    /// Encodes a message as an event.
    pub(crate) fn event(&self, stream: &Stream, number: u64, message: Bytes) -> Bytes {
        encoded(&SseEvent {
            id: self.ids.then(|| stream.event_id(number).into()),
            event: Some(Bytes::from_static(b"message")),
            data: Some(message),
            retry: None,
        })
    }

    /// Writes bytes in the pieces of the format. Returns whether the client is still there.
    async fn put(&self, pieces: &Pieces, bytes: Bytes) -> bool {
        if !self.is_odd {
            return pieces.send(Piece::Bytes(bytes)).await.is_ok();
        }
        for byte in with_crlf(&bytes) {
            if pieces.send(Piece::Bytes(Bytes::copy_from_slice(&[byte]))).await.is_err() {
                return false;
            }
        }
        true
    }

    async fn comment_is_due(&self) {
        match self.comment {
            Some(pause) => sleep_until(Instant::now() + pause).await,
            None => std::future::pending().await,
        }
    }
}

/// Encodes an event.
pub(crate) fn encoded(event: &SseEvent) -> Bytes {
    let mut out = BytesMut::new();
    SseEncoder.encode(event, &mut out);
    out.freeze()
}

/// Encodes a comment.
pub(crate) fn comment() -> Bytes {
    let mut out = BytesMut::new();
    SseEncoder.comment("still here", &mut out);
    out.freeze()
}

/// Replaces LF by CRLF.
fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    for &byte in bytes {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::reply::Reply;
    use crate::server::reply::{Answer, Content};

    async fn written(sse_format: &SseFormat, stream: &Stream, after: u64) -> (StreamEnd, String) {
        let (Reply::Answer(Answer { content: Content::Pieces(mut taken), .. }), pieces) = Reply::events() else {
            panic!("an event stream is sent in pieces")
        };
        let reading = async {
            let mut text = Vec::new();
            while let Some(Piece::Bytes(bytes)) = taken.recv().await {
                text.extend_from_slice(&bytes);
            }
            String::from_utf8(text).unwrap()
        };
        let writing = async {
            let how = sse_format.write_stream(stream, after, &pieces).await;
            drop(pieces);
            how
        };
        tokio::join!(writing, reading)
    }

    fn two_messages() -> Stream {
        let stream = Stream::new("s1".to_owned());
        stream.push(Bytes::from_static(b"1"));
        stream.push(Bytes::from_static(b"2"));
        stream.end();
        stream
    }

    #[tokio::test]
    async fn primed_stream_resumes_after_the_last_event() {
        let sse_format = SseFormat::legacy(&Settings { retry_ms: Some(50), ..Settings::default() });
        let (how, text) = written(&sse_format, &two_messages(), 1).await;
        assert_eq!(how, StreamEnd::Complete);
        assert_eq!(text, "id: s1.1\nretry: 50\ndata: \n\nid: s1.2\nevent: message\ndata: 2\n\n");
    }

    #[tokio::test]
    async fn plain_stream_has_no_ids() {
        let (_, text) = written(&SseFormat::plain(&Settings::default()), &two_messages(), 0).await;
        assert_eq!(text, "event: message\ndata: 1\n\nevent: message\ndata: 2\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn comments_are_written_until_the_client_leaves() {
        let stream = Stream::new("s1".to_owned());
        let sse_format = SseFormat::plain(&Settings { comment_ms: Some(10), ..Settings::default() });
        let (reply, pieces) = Reply::events();
        let Reply::Answer(Answer { content: Content::Pieces(mut taken), .. }) = reply else {
            panic!("an event stream is sent in pieces")
        };
        let leaving = async move {
            for _ in 0..3 {
                assert!(matches!(taken.recv().await, Some(Piece::Bytes(text)) if text == ": still here\n\n"));
            }
        };
        let (how, ()) = tokio::join!(sse_format.write_stream(&stream, 0, &pieces), leaving);
        assert_eq!(how, StreamEnd::ClientLeft);
    }
}
