//! The common pace of dials to a server that has several upstreams.
//!
//! After an outage every session of a gateway wants to connect again. Each has its own backoff, so a thousand of them
//! would still be hundreds of dials a second for a server that has just come back. So each planned dial takes a slot of
//! its server, and a slot is used once. A server with one upstream needs none.

use std::collections::{BTreeMap, BTreeSet};

use crate::defaults;
use crate::moment::Moment;
use crate::port::UpstreamId;

const PACE_NANOS: u64 = defaults::SHARED_DIAL_PACE.as_nanos() as u64;

/// The slots that are taken, by server.
#[derive(Debug, Default)]
pub struct DialPaces {
    taken: BTreeMap<UpstreamId, BTreeSet<u64>>,
}

impl DialPaces {
    /// Takes the first free slot of a server from this time on. Returns its time, which is not before the wanted one.
    pub fn take(&mut self, server: UpstreamId, wanted: Moment, now: Moment) -> Moment {
        let taken = self.taken.entry(server).or_default();
        // Slots of the past are free for ever.
        *taken = taken.split_off(&number(now));
        let mut slot = number(wanted);
        while !taken.insert(slot) {
            slot += 1;
        }
        Moment(slot.saturating_mul(PACE_NANOS))
    }

    /// Forgets a server that was removed.
    pub fn forget(&mut self, server: UpstreamId) {
        self.taken.remove(&server);
    }
}

/// The number of the first slot that is not before this time.
fn number(at: Moment) -> u64 {
    at.0.div_ceil(PACE_NANOS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOTES: UpstreamId = UpstreamId(0);

    #[test]
    fn dials_wanted_at_once_are_spread() {
        let (mut paces, now) = (DialPaces::default(), Moment::ZERO + Duration::from_secs(100));
        let dials: Vec<Moment> = (0..1_000).map(|_| paces.take(NOTES, now, now)).collect();
        assert!(dials.iter().all(|at| *at >= now));
        let in_first_second = dials.iter().filter(|at| at.since(now) < Duration::from_secs(1)).count();
        assert_eq!(in_first_second, 50);
        assert_eq!(paces.take(UpstreamId(1), now, now), now, "another server has its own slots");
    }

    #[test]
    fn late_dial_does_not_delay_an_early_one() {
        let (mut paces, now) = (DialPaces::default(), Moment::ZERO + Duration::from_secs(100));
        paces.take(NOTES, now + Duration::from_secs(300), now);
        assert_eq!(paces.take(NOTES, now, now), now);
    }
}
