//! Keepalive of an HTTP/2 connection.
//!
//! A peer that has sent nothing for [`IDLE`] is sent a PING. If no byte arrives within [`TIMEOUT`], the connection is
//! given up. HTTP/1 has no ping; there the keepalive of TCP applies.

use mendline_core::reason::CutReason;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, Sleep, sleep_until};

use super::write_tracker::WriteTracker;

const IDLE: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Http2Keepalive {
    ping: PingPong,
    tracker: Arc<WriteTracker>,
    pinged_at: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Http2Keepalive {
    pub(super) fn new(ping: PingPong, tracker: Arc<WriteTracker>) -> Http2Keepalive {
        let sleep = Box::pin(sleep_until(tracker.last_read() + IDLE));
        Http2Keepalive { ping, tracker, pinged_at: None, sleep }
    }

    /// Ready with the reason when the peer does not answer.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<CutReason> {
        if self.ping.poll_pong(cx).is_ready() {
            self.pinged_at = None;
        }
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let last_read = self.tracker.last_read();
            match self.pinged_at {
                Some(pinged_at) if last_read <= pinged_at => {
                    return Poll::Ready(CutReason::NoPong { after: TIMEOUT });
                }
                _ if last_read + IDLE > Instant::now() => {
                    self.pinged_at = None;
                    self.sleep.as_mut().reset(last_read + IDLE);
                }
                _ => {
                    let now = Instant::now();
                    // If an earlier ping is still in flight, its answer is enough.
                    let _ = self.ping.send_ping(Ping::opaque());
                    self.pinged_at = Some(now);
                    self.sleep.as_mut().reset(now + TIMEOUT);
                }
            }
        }
    }
}
