//! The idle time after which a server closes its connections, as far as it was seen.
//!
//! A request that meets the close of its connection is lost, and nothing tells whether the server has received it. An
//! unsafe call must not take that risk, so it needs a connection that was idle for a short time. One second is short
//! for most servers, but some close earlier and do not announce it. The pool therefore remembers the shortest idle time
//! after which the server closed a connection, in two cases: the close met a request, or it met an idle connection,
//! which costs nothing. Afterwards an unsafe call takes a connection that was idle for at most half of that time, or a
//! new one. Half, because the server counts from the moment it sends its response, and the request needs time, too.
//!
//! A restart of the server also closes its connections, at any idle time. So the time is forgotten after some
//! connections in succession stayed open for twice as long.

use std::time::Duration;

/// The idle time that is safe if no close was seen.
const RECENT: Duration = Duration::from_secs(1);

/// The number of connections that must have stayed open for longer, without a close in between.
const SURVIVALS: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct FatalIdle {
    shortest: Option<Duration>,
    survivals: u32,
}

impl FatalIdle {
    /// Notes that the server closed a connection that had been idle this long.
    pub(super) fn note_closed(&mut self, idle: Duration) {
        // A later close proves neither that the shorter time is wrong, nor that it is still right.
        if self.shortest.is_none_or(|shortest| idle < shortest * 2) {
            self.survivals = 0;
        }
        self.shortest = Some(self.shortest.map_or(idle, |shortest| shortest.min(idle)));
    }

    /// Notes that a connection was still open after it had been idle this long.
    pub(super) fn note_open(&mut self, idle: Duration) {
        if self.shortest.is_none_or(|shortest| idle < shortest * 2) {
            return;
        }
        self.survivals += 1;
        if self.survivals >= SURVIVALS {
            *self = FatalIdle::default();
        }
    }

    /// Returns how long a used connection may have been idle for an unsafe call.
    pub(super) fn limit(&self) -> Duration {
        self.shortest.map_or(RECENT, |shortest| (shortest / 2).min(RECENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn r24_limit_is_half_of_the_shortest_fatal_time() {
        let mut fatal = FatalIdle::default();
        assert_eq!(fatal.limit(), RECENT);
        fatal.note_closed(ms(5_000));
        assert_eq!(fatal.limit(), RECENT, "never longer than without a close");
        fatal.note_closed(ms(500));
        fatal.note_closed(ms(700));
        assert_eq!(fatal.limit(), ms(250));
    }

    #[test]
    fn r24_fatal_time_is_forgotten_after_enough_connections_survived_it() {
        let mut fatal = FatalIdle::default();
        fatal.note_closed(ms(10));
        for _ in 0..SURVIVALS - 1 {
            fatal.note_open(ms(20));
            fatal.note_open(ms(19));
        }
        assert_eq!(fatal.limit(), ms(5), "19 ms is too close to the fatal time to count");
        fatal.note_closed(ms(15));
        for _ in 0..SURVIVALS - 1 {
            fatal.note_open(ms(20));
        }
        assert_eq!(fatal.limit(), ms(5), "the count begins again at a close");
        fatal.note_open(ms(20));
        assert_eq!(fatal.limit(), RECENT);
    }

    #[test]
    fn close_long_after_the_fatal_time_does_not_restart_the_count() {
        let mut fatal = FatalIdle::default();
        fatal.note_closed(ms(10));
        for _ in 0..SURVIVALS {
            fatal.note_open(ms(4_000));
            fatal.note_closed(ms(5_000));
        }
        assert_eq!(fatal.limit(), RECENT);
    }
}
