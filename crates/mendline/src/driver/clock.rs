//! The driver's clock: time since its start, and one timer.
//!
//! The timer is reset only for an earlier deadline. Deadlines move back with every answered call, and one early wakeup
//! every few minutes costs less than two timer updates per call. The clock is tokio's, so that a test can pause it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mendline_core::Moment;
use tokio::time::{Instant, Sleep};

/// The delay of a timer without a deadline.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// The time and one timer.
pub(super) struct Clock {
    start: Instant,
    sleep: Pin<Box<Sleep>>,
    armed: Option<Moment>,
}

impl Clock {
    /// Starts a clock.
    pub(super) fn start() -> Clock {
        Clock { start: Instant::now(), sleep: Box::pin(tokio::time::sleep(FAR)), armed: None }
    }

    /// Returns the time since the start.
    pub(super) fn now(&self) -> Moment {
        let since = self.start.elapsed();
        Moment::ZERO + since
    }

    /// Becomes ready at the armed deadline, which may be earlier than `deadline`.
    pub(super) fn poll_until(&mut self, deadline: Option<Moment>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.armed = Some(deadline);
            self.sleep.as_mut().reset(self.start + (deadline - Moment::ZERO));
        }
        if self.sleep.as_mut().poll(cx).is_ready() {
            self.armed = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}
