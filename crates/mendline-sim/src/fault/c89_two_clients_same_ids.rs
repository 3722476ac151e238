//! C89: a second client connects to the same server and uses the same ids as the first.

use std::time::Duration;

use super::Fault;
use crate::server::Era;
use crate::world::World;

/// See the module.
pub(super) struct TwoClientsSameIds;

impl Fault for TwoClientsSameIds {
    fn name(&self) -> &'static str {
        "c89_two_clients_same_ids"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        // A legacy server has one client; sharing one is not simulated.
        if world.hosts[at].era == Era::Modern {
            world.connect_another_client(at);
        }
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
