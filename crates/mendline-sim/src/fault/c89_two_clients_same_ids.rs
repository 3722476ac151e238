//! C89: a second client comes to the same server and numbers its requests as the first one does.

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
        // In the legacy era a server is greeted by one client; who shares one is a later story.
        if world.hosts[at].era == Era::Modern {
            world.connect_another_client(at);
        }
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
