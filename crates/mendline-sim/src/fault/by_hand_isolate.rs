//! The operator isolates an upstream and later ends the isolation.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct Isolate;

impl Fault for Isolate {
    fn name(&self) -> &'static str {
        "by_hand_isolate"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.isolate(at);
        None
    }

    fn end(&self, world: &mut World, at: usize) {
        world.end_isolation(at);
    }
}
