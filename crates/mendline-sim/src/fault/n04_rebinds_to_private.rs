//! N04: the host name of the server resolves to a forbidden address.

use std::time::Duration;

use super::Fault;
use crate::network_faults::ConnectResult;
use crate::world::World;

/// See the module.
pub(super) struct RebindsToPrivate;

impl Fault for RebindsToPrivate {
    fn name(&self) -> &'static str {
        "n04_rebinds_to_private"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.block(at, ConnectResult::Forbidden("its name leads to 10.0.0.7, which is not allowed"));
        None
    }
}
