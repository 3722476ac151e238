//! H29: a proxy in front of the server times out and answers 504.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct GatewayTimeout;

impl Fault for GatewayTimeout {
    fn name(&self) -> &'static str {
        "h29_504"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(504, None), chance));
        }
        None
    }
}
