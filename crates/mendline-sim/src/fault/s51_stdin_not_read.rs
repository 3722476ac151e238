//! S51: the server stops reading its stdin. Pipes fill up with partial lines; some servers are killed in that state.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct StdinNotRead;

impl Fault for StdinNotRead {
    fn name(&self) -> &'static str {
        "s51_stdin_not_read"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.ignores_stdin = true;
        world.rng.percent(50).then(|| world.rng.millis(50, 4_000))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.kill(at, Ending::Signal(9));
        None
    }
}
