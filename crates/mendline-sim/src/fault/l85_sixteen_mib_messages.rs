//! L85: the server says things that are too long to be passed on. The limit is a small one here; a large one is the same.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct SixteenMibMessages;

impl Fault for SixteenMibMessages {
    fn name(&self) -> &'static str {
        "l85_sixteen_mib_messages"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.line_limit = Some(*world.rng.pick(&[150, 300, 400]));
        None
    }
}
