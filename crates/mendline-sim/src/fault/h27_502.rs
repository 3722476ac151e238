//! H27: a proxy answers 502. Whether the server executed the request is unknown.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct BadGateway;

impl Fault for BadGateway {
    fn name(&self) -> &'static str {
        "h27_502"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(502, None), chance));
        }
        None
    }
}
