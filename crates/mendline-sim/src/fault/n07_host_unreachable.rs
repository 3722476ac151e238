//! N07: there is no route to the host.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct HostUnreachable;

impl Fault for HostUnreachable {
    fn name(&self) -> &'static str {
        "n07_host_unreachable"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::Unreachable);
        None
    }
}
