//! C87: the client is killed: first its output ends, then writes to it fail.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct ClientKill9;

impl Fault for ClientKill9 {
    fn name(&self) -> &'static str {
        "c87_client_kill9"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.clients[at].closing = true;
        Some(Duration::from_millis(3))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.client_disconnects(at);
        None
    }

    fn end(&self, _: &mut World, _: usize) {}

    fn ends_client(&self) -> bool {
        true
    }
}
