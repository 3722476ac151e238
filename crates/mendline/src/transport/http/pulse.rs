//! Is the peer at the other end of an HTTP/2 connection still there?
//!
//! One that has been silent for [`SILENCE`] is sent a PING; any byte is a sign of life, and without one for [`ANSWER`]
//! the connection is given up. HTTP/1 has no such question; there the probes of TCP have to do.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, Sleep, sleep_until};

use super::write_tracker::WriteTracker;

const SILENCE: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(10);

pub(super) struct Pulse {
    ping: PingPong,
    tracker: Arc<WriteTracker>,
    asked: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Pulse {
    pub(super) fn new(ping: PingPong, tracker: Arc<WriteTracker>) -> Pulse {
        let sleep = Box::pin(sleep_until(tracker.last_read() + SILENCE));
        Pulse { ping, tracker, asked: None, sleep }
    }

    /// Ready when the peer is gone, with words.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        if self.ping.poll_pong(cx).is_ready() {
            self.asked = None;
        }
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let heard = self.tracker.last_read();
            match self.asked {
                Some(asked) if heard <= asked => {
                    return Poll::Ready(format!(
                        "the server did not answer a ping within {} seconds",
                        ANSWER.as_secs()
                    ));
                }
                _ if heard + SILENCE > Instant::now() => {
                    self.asked = None;
                    self.sleep.as_mut().reset(heard + SILENCE);
                }
                _ => {
                    let now = Instant::now();
                    // A ping that is still on its way is as good as another one.
                    let _ = self.ping.send_ping(Ping::opaque());
                    self.asked = Some(now);
                    self.sleep.as_mut().reset(now + ANSWER);
                }
            }
        }
    }
}
