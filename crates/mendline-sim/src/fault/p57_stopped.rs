//! P57: the child is stopped (SIGSTOP) until it is continued.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct Stopped;

impl Fault for Stopped {
    fn name(&self) -> &'static str {
        "p57_stopped"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.halt(at);
        None
    }
}
