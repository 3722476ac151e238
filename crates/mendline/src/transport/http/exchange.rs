//! One exchange, from its beginning to its `End`.
//!
//! It waits for a connection, then for the answer, then reads the body: a stage each. What a stage has learned is a
//! [`Step`]; what to do with connections and facts because of it is `Http`'s business.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::response::Parts;
use mendline_core::port::{HttpRequest, Reuse, Written};

use super::transfer::{ResponseFuture, Evidence, Failure, ResponseBody, Upload};
use super::body::{Read, Reader};
use super::connection::Freshness;
use super::origin::Location;
use super::pool::ConnectionId;

/// An exchange that has not ended.
pub(super) struct Exchange {
    pub(super) request: HttpRequest,
    pub(super) location: Arc<Location>,
    reuse: Reuse,
    /// How often it has been redirected.
    pub(super) redirects: u32,
    /// Whether it was failed that a connection carries it.
    pub(super) reached: bool,
    /// A reused connection was found dead before the first byte, so this is the is_second_try one.
    pub(super) is_second_try: bool,
    pub(super) stage: Stage,
    pub(super) waker: Waker,
}

pub(super) enum Stage {
    Waiting,
    Sent { assignment: Assignment, response: ResponseFuture },
    Reading { assignment: Assignment, body: ResponseBody, reader: Reader, idle_limit: Option<Duration> },
}

/// What carries an exchange.
pub(super) struct Assignment {
    pub(super) connection: ConnectionId,
    /// Whether others had used the connection before.
    pub(super) reused: bool,
    pub(super) evidence: Evidence,
    upload: Option<Upload>,
    /// Why the connection broke, when it knows better than the stream does.
    pub(super) broken: Option<String>,
}

/// What a poll has brought.
pub(super) enum Step {
    /// Nothing yet.
    Wait,
    /// The head came; the exchange has no stage until it is given one.
    Answered { assignment: Assignment, parts: Box<Parts>, body: ResponseBody },
    /// Something of its body was read.
    Read(Read),
    /// It failed.
    Failed(Failure),
}

impl Exchange {
    pub(super) fn new(request: HttpRequest, location: Arc<Location>, reuse: Reuse, waker: Waker) -> Exchange {
        Exchange { request, location, reuse, redirects: 0, reached: false, is_second_try: false, stage: Stage::Waiting, waker }
    }

    /// How fresh its connection must be.
    pub(super) fn freshness(&self) -> Freshness {
        if self.is_second_try { Freshness::Unused } else { Freshness::By(self.reuse) }
    }

    pub(super) fn assignment_mut(&mut self) -> Option<&mut Assignment> {
        match &mut self.stage {
            Stage::Waiting => None,
            Stage::Sent { assignment, .. } | Stage::Reading { assignment, .. } => Some(assignment),
        }
    }

    /// Whether what it does next is to read from its body.
    pub(super) fn reads(&self) -> bool {
        matches!(self.stage, Stage::Reading { .. })
    }

    /// How much of its body it holds.
    pub(super) fn held(&self) -> usize {
        if let Stage::Reading { reader, .. } = &self.stage { reader.held() } else { 0 }
    }

    pub(super) fn poll(&mut self) -> Step {
        let mut cx = Context::from_waker(&self.waker);
        if let Some(assignment) = match &mut self.stage {
            Stage::Waiting => None,
            Stage::Sent { assignment, .. } | Stage::Reading { assignment, .. } => Some(assignment),
        } {
            assignment.poll_upload(&mut cx);
        }
        match &mut self.stage {
            Stage::Waiting => Step::Wait,
            Stage::Sent { response, .. } => match response.poll(&mut cx) {
                Poll::Pending => Step::Wait,
                Poll::Ready(Err(failure)) => Step::Failed(failure),
                Poll::Ready(Ok((parts, body))) => match std::mem::replace(&mut self.stage, Stage::Waiting) {
                    Stage::Sent { assignment, .. } => Step::Answered { assignment, parts: Box::new(parts), body },
                    _ => Step::Wait,
                },
            },
            Stage::Reading { body, reader, .. } => Step::Read(reader.poll(body, &mut cx)),
        }
    }
}

impl Assignment {
    pub(super) fn new(connection: ConnectionId, reused: bool, evidence: Evidence, upload: Option<Upload>) -> Assignment {
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

    /// Whether the request may have been written whole, so that nothing of it is still to come on this connection.
    pub(super) fn is_clear(&self) -> bool {
        self.evidence.written(false) == Written::Whole
    }
}
