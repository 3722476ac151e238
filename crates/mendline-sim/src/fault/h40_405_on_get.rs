//! H40: GET is answered with 405: there is no notification stream, and no response can be resumed.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct NotAllowedOnGet;

impl Fault for NotAllowedOnGet {
    fn name(&self) -> &'static str {
        "h40_405_on_get"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.no_get = true;
        }
        None
    }
}
