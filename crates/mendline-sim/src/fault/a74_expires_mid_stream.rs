//! A74: the credential expires while responses are closed and resumed, so that resumptions are refused.

use std::time::Duration;

use super::Fault;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct ExpiresMidStream;

impl Fault for ExpiresMidStream {
    fn name(&self) -> &'static str {
        "a74_expires_mid_stream"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.polls = true;
        }
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.origins[at].authorization.expire();
        Some(world.rng.millis(700, 4_000))
    }

    fn prepare(&self, site: &mut Site) {
        site.name_events();
    }
}
