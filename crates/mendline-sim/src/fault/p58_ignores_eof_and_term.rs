//! P58: the child ignores the end of its stdin and TERM; only KILL ends it. This lasts until the end of the world.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct IgnoresEofAndTerm;

impl Fault for IgnoresEofAndTerm {
    fn name(&self) -> &'static str {
        "p58_ignores_eof_and_term"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.ignores_term = true;
        if world.rng.percent(50) {
            world.reconnect(at);
        }
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
