//! T14: connections are reset within the response. A response with event ids can be resumed.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Cut;
use crate::world::World;

/// See the module.
pub(super) struct ResetMidBody;

impl Fault for ResetMidBody {
    fn name(&self) -> &'static str {
        "t14_reset_mid_body"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[30, 60, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.cut = Some((Cut::Body, chance));
        }
        None
    }
}
