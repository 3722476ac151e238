//! P55: every child crashes soon after its start. The link is parked and not dialed forever.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct CrashLoop;

impl Fault for CrashLoop {
    fn name(&self) -> &'static str {
        "p55_crash_loop"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let soon = world.rng.millis(0, 400);
        world.hosts[at].faults.crashes_after = Some(soon);
        world.kill(at, Ending::Code(1));
        None
    }
}
