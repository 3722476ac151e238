//! P57: the child is stopped while it has no open request, and is never continued; it must be replaced.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct FrozenIdle;

impl Fault for FrozenIdle {
    fn name(&self) -> &'static str {
        "p57_frozen_idle"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.clients[at].is_idle = true;
        Some(Duration::from_millis(1))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        if world.clients[at].open_keys().next().is_none() {
            world.halt(at);
            return None;
        }
        Some(Duration::from_millis(40))
    }

    fn end(&self, world: &mut World, at: usize) {
        world.clients[at].is_idle = false;
        super::restore(world, at);
    }
}
