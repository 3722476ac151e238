//! L84: the server takes ten times as long for everything.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct Upstream10xSlower;

impl Fault for Upstream10xSlower {
    fn name(&self) -> &'static str {
        "l84_upstream_10x_slower"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.slowdown = 10;
        None
    }
}
