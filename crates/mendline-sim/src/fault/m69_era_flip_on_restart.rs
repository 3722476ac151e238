//! M69: the server restarts in another version with the other era, and later in the old one.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct EraFlipOnRestart;

impl Fault for EraFlipOnRestart {
    fn name(&self) -> &'static str {
        "m69_era_flip_on_restart"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].flipped = true;
        world.kill(at, Ending::Code(0));
        None
    }

    fn end(&self, world: &mut World, at: usize) {
        world.hosts[at].flipped = false;
        super::restore(world, at);
        world.kill_all(at, Ending::Code(0));
    }
}
