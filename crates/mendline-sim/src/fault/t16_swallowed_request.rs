//! T16: now and then a connection swallows one request. It stays open, nothing comes back, and no probe of the network
//! finds out: a middlebox answers those. Other connections work.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct SwallowedRequest;

impl Fault for SwallowedRequest {
    fn name(&self) -> &'static str {
        "t16_swallowed_request"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.swallows_next = true;
        }
        Some(world.rng.millis(2_000, 20_000))
    }

    fn end(&self, world: &mut World, at: usize) {
        // The connections stay as they are.
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.swallows_next = false;
        }
    }
}
