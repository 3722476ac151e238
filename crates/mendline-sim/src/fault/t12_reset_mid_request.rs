//! T12: connections are reset while the request is being written. No server can have received all of it.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Cut;
use crate::world::World;

/// See the module.
pub(super) struct ResetMidRequest;

impl Fault for ResetMidRequest {
    fn name(&self) -> &'static str {
        "t12_reset_mid_request"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.cut = Some((Cut::Request, chance));
        }
        None
    }
}
