//! H30: 429 with `Retry-After` of one hour. Mendline neither waits an hour nor retries all the time.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct BusyForAnHour;

impl Fault for BusyForAnHour {
    fn name(&self) -> &'static str {
        "h30_429_for_an_hour"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[10, 30, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(429, Some(3_600)), chance));
        }
        None
    }
}
