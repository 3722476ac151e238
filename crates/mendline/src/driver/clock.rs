//! The driver's clock: moments since its own start, and one sleep.
//!
//! The sleep is re-armed only for an earlier deadline. Deadlines move away with every answered call, and waking once too
//! early every few minutes costs less than moving a timer twice per call. The clock is tokio's, so that a test can hold it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mendline_core::Moment;
use tokio::time::{Instant, Sleep};

/// A sleep that is armed for nothing is armed for this far away.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// The time, and one sleep.
pub(super) struct Clock {
    start: Instant,
    sleep: Pin<Box<Sleep>>,
    armed: Option<Moment>,
}

impl Clock {
    /// A clock that starts now.
    pub(super) fn start() -> Clock {
        Clock { start: Instant::now(), sleep: Box::pin(tokio::time::sleep(FAR)), armed: None }
    }

    /// What the engine is told.
    pub(super) fn now(&self) -> Moment {
        let since = self.start.elapsed();
        Moment::ZERO + since
    }

    /// Ready when the armed moment has come, which may be before `deadline`.
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
