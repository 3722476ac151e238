//! X96b: the machine changes its network. Every connection is silently dead; the shell reports the change.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct RouteOrAddressChanged;

impl Fault for RouteOrAddressChanged {
    fn name(&self) -> &'static str {
        "x96b_route_or_address_changed"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.silence(at);
        world.report_network_change();
        Some(world.rng.millis(2_000, 20_000))
    }
}
