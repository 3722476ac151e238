//! S44: a response begins and then carries only comments.

use std::time::Duration;

use super::Fault;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct CommentsOnly;

impl Fault for CommentsOnly {
    fn name(&self) -> &'static str {
        "s44_comments_only"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.calls_hang = true;
        None
    }

    fn prepare(&self, site: &mut Site) {
        site.events = 100;
    }
}
