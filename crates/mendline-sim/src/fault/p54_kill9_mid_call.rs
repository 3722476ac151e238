//! P54: the child is killed while it executes a request or while its stdin has accepted half of a line.

use std::time::Duration;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct Kill9MidCall;

impl Fault for Kill9MidCall {
    fn name(&self) -> &'static str {
        "p54_kill9_mid_call"
    }

    fn begin(&self, _: &mut World, _: usize) -> Option<Duration> {
        Some(Duration::from_micros(100))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        let hit = |link| {
            let child = world.children.get(link);
            child.is_some_and(|child| child.server.open_jobs() > 0 || child.stdin.is_within_a_line())
        };
        if world.living(at).iter().any(hit) {
            world.kill(at, Ending::Signal(9));
            return Some(world.rng.millis(500, 20_000));
        }
        Some(world.rng.millis(0, 30))
    }

    fn end(&self, _: &mut World, _: usize) {}
}
