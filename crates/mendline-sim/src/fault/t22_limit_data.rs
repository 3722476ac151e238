//! T22: every connection breaks after a number of response bytes.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct LimitData;

impl Fault for LimitData {
    fn name(&self) -> &'static str {
        "t22_limit_data"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let limit = *world.rng.pick(&[0, 60, 200, 600]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.response_limit = Some(limit);
        }
        None
    }
}
