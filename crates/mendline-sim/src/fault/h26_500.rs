//! H26: the server answers 500, before or after it executed the request.

use std::time::Duration;

use super::Fault;
use crate::network_faults::InjectedResponse;
use crate::world::World;

/// See the module.
pub(super) struct InternalError;

impl Fault for InternalError {
    fn name(&self) -> &'static str {
        "h26_500"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.injected = Some((InjectedResponse::Status(500, None), chance));
        }
        None
    }
}
