//! S46: a resumed stream is replayed from its beginning.

use std::time::Duration;

use super::Fault;
use crate::network_faults::Cut;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct ReplaysSeenEvents;

impl Fault for ReplaysSeenEvents {
    fn name(&self) -> &'static str {
        "s46_replays_seen_events"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.replays_all = true;
            site.faults.cut = Some((Cut::Body, 30));
        }
        None
    }

    fn prepare(&self, site: &mut Site) {
        site.name_events();
    }
}
