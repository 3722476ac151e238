//! P60: the command does not exist.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::server_faults::SpawnResult;
use crate::world::World;

/// See the module.
pub(super) struct SpawnNotFound;

impl Fault for SpawnNotFound {
    fn name(&self) -> &'static str {
        "p60_spawn_not_found"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.spawn = SpawnResult::NotFound;
        world.kill(at, Ending::Signal(9));
        None
    }
}
