//! T16: calls are read and never answered.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct Silence;

impl Fault for Silence {
    fn name(&self) -> &'static str {
        "t16_silence"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.calls_hang = true;
        None
    }
}
