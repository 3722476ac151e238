//! N03: the server moves to another address. Existing connections are silently dead; new ones work.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct AddressChanged;

impl Fault for AddressChanged {
    fn name(&self) -> &'static str {
        "n03_address_changed"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.silence(at);
        Some(world.rng.millis(2_000, 30_000))
    }
}
