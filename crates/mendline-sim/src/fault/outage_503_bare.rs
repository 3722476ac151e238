//! A load balancer without a server answers 503 and names no pause.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct Bare503;

impl Fault for Bare503 {
    fn name(&self) -> &'static str {
        "outage_503_bare"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(503, None), chance));
        }
        None
    }
}
