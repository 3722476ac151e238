//! One exchange, from its beginning to its `End`.
//!
//! It waits for a connection, then for the response, then reads the body: one stage each. A poll returns a [`Step`];
//! `Http` updates connections and reports facts accordingly.

use mendline_core::reason::CutReason;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mendline_core::port::{HttpRequest, Reuse, Written};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::body::{Read, Reader};
use super::connection::Freshness;
use super::origin::Location;
use super::pool::{ConnectionId, Pool};
use super::transfer::{Answer, Evidence, Failure, ResponseBody, ResponseFuture, Upload};

/// The least time between two reports of bytes that are neither an event nor a body.
const BYTES_INTERVAL: Duration = Duration::from_secs(1);

/// An exchange that has not ended.
pub(super) struct Exchange {
    pub(super) request: HttpRequest,
    pub(super) location: Arc<Location>,
    reuse: Reuse,
    /// The number of redirects that were followed.
    pub(super) redirects: u32,
    /// Whether `Reached` was reported.
    pub(super) reached: bool,
    /// A reused connection was dead before the first byte, so this is the second try.
    pub(super) is_second_try: bool,
    /// The time when it was sent, and how long its connection had been idle since the exchange before.
    pub(super) sent_after_idle: Option<(Instant, Duration)>,
    /// The time at which bytes of its response were last reported by themselves.
    bytes_reported: Option<Instant>,
    /// A fact about it was found and is not reported yet. Until then its body is not read.
    pub(super) has_unreported: bool,
    pub(super) stage: Stage,
    pub(super) waker: Waker,
}

pub(super) enum Stage {
    Waiting,
    Sent { assignment: Assignment, response: ResponseFuture },
    Reading { assignment: Assignment, body: ResponseBody, reader: Reader },
}

/// The connection that an exchange was sent on, and the progress of its request.
pub(super) struct Assignment {
    pub(super) connection: ConnectionId,
    /// Whether the connection was used before.
    pub(super) reused: bool,
    pub(super) evidence: Evidence,
    upload: Option<Upload>,
    /// The reason why the connection broke, if it is more precise than that of the stream.
    pub(super) broken: Option<CutReason>,
}

/// The result of a poll.
pub(super) enum Step {
    /// Nothing is ready.
    Wait,
    /// The head of the response arrived; the caller sets the next stage.
    Answered { assignment: Assignment, answer: Box<Answer> },
    /// The result of reading from the body.
    Read(Read),
    /// The exchange failed.
    Failed(Failure),
}

impl Exchange {
    pub(super) fn new(request: HttpRequest, location: Arc<Location>, reuse: Reuse, waker: Waker) -> Exchange {
        Exchange {
            request,
            location,
            reuse,
            redirects: 0,
            reached: false,
            is_second_try: false,
            sent_after_idle: None,
            bytes_reported: None,
            has_unreported: false,
            stage: Stage::Waiting,
            waker,
        }
    }

    /// Returns how fresh its connection must be.
    pub(super) fn freshness(&self) -> Freshness {
        if self.is_second_try { Freshness::Unused } else { Freshness::By(self.reuse) }
    }

    pub(super) fn assignment_mut(&mut self) -> Option<&mut Assignment> {
        match &mut self.stage {
            Stage::Waiting => None,
            Stage::Sent { assignment, .. } | Stage::Reading { assignment, .. } => Some(assignment),
        }
    }

    /// Returns whether the next poll reads from the body.
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.stage, Stage::Reading { .. })
    }

    /// Returns how many bytes of its body are buffered.
    pub(super) fn held(&self) -> usize {
        if let Stage::Reading { reader, .. } = &self.stage { reader.held() } else { 0 }
    }

    /// Returns whether bytes of its response arrived that are to be reported by themselves.
    pub(super) fn take_new_bytes(&mut self) -> bool {
        let Stage::Reading { reader, .. } = &mut self.stage else { return false };
        if !reader.take_new_bytes() {
            return false;
        }
        let now = Instant::now();
        let is_due = self.bytes_reported.is_none_or(|last| now.duration_since(last) >= BYTES_INTERVAL);
        if is_due {
            self.bytes_reported = Some(now);
        }
        is_due
    }

    /// Continues to write the request of an exchange whose response must not be read now.
    pub(super) fn poll_write<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&mut self, pool: &mut Pool<Io>) {
        if let Stage::Reading { assignment, body: ResponseBody::Http1, .. } = &self.stage
            && let Some((http1, _, waker)) = pool.http1(assignment.connection)
        {
            http1.poll_write(&mut Context::from_waker(waker));
        }
    }

    /// Reads and writes. An exchange over HTTP/1 polls its connection, and so the connection's waker is woken for it.
    pub(super) fn poll<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&mut self, pool: &mut Pool<Io>) -> Step {
        let (assignment, is_http1) = match &mut self.stage {
            Stage::Waiting => return Step::Wait,
            Stage::Sent { assignment, response } => (assignment, matches!(response, ResponseFuture::Http1)),
            Stage::Reading { assignment, body, .. } => (assignment, matches!(body, ResponseBody::Http1)),
        };
        let mut cx = Context::from_waker(&self.waker);
        assignment.poll_upload(&mut cx);
        let mut own = None;
        if is_http1 && let Some((http1, buffer, waker)) = pool.http1(assignment.connection) {
            own = Some((http1, buffer));
            cx = Context::from_waker(waker);
        }
        match &mut self.stage {
            Stage::Waiting => Step::Wait,
            Stage::Sent { response, .. } => match response.poll(own, &mut cx) {
                Poll::Pending => Step::Wait,
                Poll::Ready(Err(failure)) => Step::Failed(failure),
                Poll::Ready(Ok(answer)) => match std::mem::replace(&mut self.stage, Stage::Waiting) {
                    Stage::Sent { assignment, .. } => Step::Answered { assignment, answer: Box::new(answer) },
                    _ => Step::Wait,
                },
            },
            Stage::Reading { body, reader, .. } => Step::Read(reader.poll(body, own, &mut cx)),
        }
    }
}

impl Assignment {
    pub(super) fn new(
        connection: ConnectionId,
        reused: bool,
        evidence: Evidence,
        upload: Option<Upload>,
    ) -> Assignment {
        Assignment { connection, reused, evidence, upload, broken: None }
    }

    fn poll_upload(&mut self, cx: &mut Context<'_>) {
        if let Some(Poll::Ready(done)) = self.upload.as_mut().map(|upload| upload.poll(cx)) {
            self.upload = None;
            if let Evidence::Http2 { handed_over, .. } = &mut self.evidence {
                *handed_over = done;
            }
        }
    }

    /// Returns whether the whole request may have been written, so that no part of it is still to be sent on this
    /// connection.
    pub(super) fn is_request_written(&self) -> bool {
        self.evidence.written(false) == Written::Whole
    }
}
