//! P61: a spawn fails with EAGAIN.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::server_faults::SpawnResult;
use crate::world::World;

/// See the module.
pub(super) struct SpawnEagain;

impl Fault for SpawnEagain {
    fn name(&self) -> &'static str {
        "p61_spawn_eagain"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.spawn = SpawnResult::Exhausted;
        world.kill(at, Ending::Signal(9));
        None
    }
}
