//! H30: 429 with `Retry-After`. The request was not executed.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct BusyForAWhile;

impl Fault for BusyForAWhile {
    fn name(&self) -> &'static str {
        "h30_429_retry_after"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        let wait = world.rng.between(1, 4);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(429, Some(wait)), chance));
        }
        None
    }
}
