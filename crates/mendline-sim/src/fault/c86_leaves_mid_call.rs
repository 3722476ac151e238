//! C86: the client disconnects while its calls run. They are cancelled in the modern era and continue in the legacy
//! era.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct LeavesMidCall;

impl Fault for LeavesMidCall {
    fn name(&self) -> &'static str {
        "c86_leaves_mid_call"
    }

    fn begin(&self, _: &mut World, _: usize) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        if world.clients[at].open_keys().next().is_some() {
            world.client_disconnects(at);
            return None;
        }
        Some(Duration::from_millis(40))
    }

    fn end(&self, _: &mut World, _: usize) {}

    fn ends_client(&self) -> bool {
        true
    }
}
