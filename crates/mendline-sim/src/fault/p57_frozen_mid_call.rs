//! P57: the child is stopped while it has an open request, and is never continued. The client goes on calling. After
//! the deadline of a call the child must be replaced.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct FrozenMidCall;

impl Fault for FrozenMidCall {
    fn name(&self) -> &'static str {
        "p57_frozen_mid_call"
    }

    fn begin(&self, _: &mut World, _: usize) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        if world.clients[at].open_keys().next().is_some() && !world.living(at).is_empty() {
            world.halt(at);
            return None;
        }
        Some(Duration::from_millis(3))
    }
}
