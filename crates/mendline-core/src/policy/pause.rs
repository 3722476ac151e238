//! A server that is busy says when to come back, and everybody waits.
//!
//! `Retry-After` with 429 or 503 is about the server, not about the one call that happened to hear it: if only that call
//! waited, the others would go on knocking. So it pauses the upstream. Being busy is not being sick: no breaker counts it.
//!
//! A server may say an hour. Nobody sleeps an hour: whoever would wait longer than a caller waits is answered at once, with
//! the server's own hint. And nobody believes an hour either: after a few minutes one call looks again, and if the server
//! meant it, it says so again.

use std::time::Duration;

use crate::defaults;
use crate::moment::Moment;

/// Until when nothing is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    until: Moment,
    /// Until when the server wants it.
    hinted: Moment,
}

impl Pause {
    /// The server asks for this long. Gives how long it will be, if that is news: a shorter hint than the last one is not.
    pub fn extend(&mut self, hint: Duration, now: Moment) -> Option<Duration> {
        self.hinted = self.hinted.max(now + hint);
        let until = now + hint.min(defaults::PAUSE_CAP);
        (until > self.until.max(now)).then(|| {
            self.until = until;
            until.since(now)
        })
    }

    /// When it is over; in the past if there is none.
    pub fn until(&self) -> Moment {
        self.until
    }

    /// Does it hold now?
    pub fn holds(&self, now: Moment) -> bool {
        self.until > now
    }

    /// How long the server still wants to be left alone.
    pub fn hint(&self, now: Moment) -> Duration {
        self.hinted.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_and_never_shrinks() {
        let mut pause = Pause::default();
        let now = Moment(7);
        assert!(!pause.holds(now));
        assert_eq!(pause.extend(Duration::from_secs(5), now), Some(Duration::from_secs(5)));
        assert_eq!(pause.extend(Duration::from_secs(3), now), None);
        assert!(pause.holds(now + Duration::from_secs(4)) && !pause.holds(now + Duration::from_secs(5)));
        assert_eq!(pause.extend(Duration::ZERO, now + Duration::from_secs(9)), None, "no time is no pause");
    }

    #[test]
    fn long_hint_is_capped_but_reported_in_full() {
        let mut pause = Pause::default();
        let hour = Duration::from_secs(3_600);
        assert_eq!(pause.extend(hour, Moment::ZERO), Some(defaults::PAUSE_CAP));
        assert!(!pause.holds(Moment::ZERO + defaults::PAUSE_CAP));
        assert_eq!(pause.hint(Moment::ZERO + defaults::PAUSE_CAP), hour - defaults::PAUSE_CAP);
    }
}
