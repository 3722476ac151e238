//! L85: the server sends messages that exceed the size limit. The limit is reduced here.

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
