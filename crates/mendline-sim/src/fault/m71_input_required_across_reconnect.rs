//! M71: the server requires more input before it completes a call, and restarts in between.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct InputRequiredAcrossReconnect;

impl Fault for InputRequiredAcrossReconnect {
    fn name(&self) -> &'static str {
        "m71_input_required_across_reconnect"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.needs_input = true;
        Some(world.rng.millis(50, 1_000))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        if world.rng.percent(50) {
            world.kill(at, Ending::Signal(9));
            world.restart(at);
        }
        Some(world.rng.millis(300, 5_000))
    }
}
