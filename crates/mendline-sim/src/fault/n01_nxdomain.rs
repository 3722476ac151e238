//! N01: the host name of the server does not exist.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct NxDomain;

impl Fault for NxDomain {
    fn name(&self) -> &'static str {
        "n01_nxdomain"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::NameNotFound);
        None
    }
}
