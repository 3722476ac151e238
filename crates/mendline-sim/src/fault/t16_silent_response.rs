//! T16: now and then the connection of a call becomes silent after the head of the response. It stays open, nothing more
//! comes back, and no probe of the network finds out. Other connections work.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct SilentResponse;

impl Fault for SilentResponse {
    fn name(&self) -> &'static str {
        "t16_silent_response"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.stalls_next_response = true;
        }
        Some(world.rng.millis(2_000, 20_000))
    }

    fn end(&self, world: &mut World, at: usize) {
        // The connections stay as they are.
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.stalls_next_response = false;
        }
    }
}
