//! The operator reconnects an upstream while calls are running.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct Reconnect;

impl Fault for Reconnect {
    fn name(&self) -> &'static str {
        "by_hand_reconnect"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.reconnect(at);
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
