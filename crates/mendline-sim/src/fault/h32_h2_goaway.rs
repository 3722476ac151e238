//! H32: the server says goodbye to its connections: what is on its way is not looked at, what it has begun it finishes.

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
