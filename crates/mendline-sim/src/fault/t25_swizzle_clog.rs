//! T25: one server after the other becomes silent, and they recover in another order.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct SwizzleClog;

impl Fault for SwizzleClog {
    fn name(&self) -> &'static str {
        "t25_swizzle_clog"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.stall(at);
        Some(world.rng.millis(100, 2_000))
    }

    fn repeat(&self, world: &mut World, _: usize) -> Option<Duration> {
        let faulty_upstreams = world.faulty_upstreams();
        let which = world.rng.below(faulty_upstreams as u64) as usize;
        if world.rng.percent(60) {
            world.stall(which);
        } else {
            super::restore(world, which);
        }
        Some(world.rng.millis(100, 4_000))
    }

    fn end(&self, world: &mut World, _: usize) {
        for which in 0..world.faulty_upstreams() {
            super::restore(world, which);
        }
    }
}
