//! H32: the server sends GOAWAY: it does not process requests in transit, and finishes the ones it has begun.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct GoAway;

impl Fault for GoAway {
    fn name(&self) -> &'static str {
        "h32_h2_goaway"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.send_goaway(at);
        Some(world.rng.millis(1, 300))
    }
}
