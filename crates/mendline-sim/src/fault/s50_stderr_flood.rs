//! S50: the server floods its stderr. Nothing else slows down.

use std::time::Duration;

use bytes::Bytes;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct StderrFlood;

impl Fault for StderrFlood {
    fn name(&self) -> &'static str {
        "s50_stderr_flood"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        for link in world.living(at) {
            if let Some(child) = world.children.get_mut(&link) {
                let line = Bytes::from_static(b"WARN \x1b[31m something is odd \x00 \xff");
                child.stderr.extend(std::iter::repeat_n(line, 30));
            }
        }
        Some(world.rng.millis(50, 1_500))
    }
}
