//! H31: 429 without `Retry-After`. The request was not executed.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct Busy;

impl Fault for Busy {
    fn name(&self) -> &'static str {
        "h31_429_bare"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(429, None), chance));
        }
        None
    }
}
