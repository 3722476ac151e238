//! H36: a modern server requires the parameter headers of its tools and refuses calls without them.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct HeaderMismatch;

impl Fault for HeaderMismatch {
    fn name(&self) -> &'static str {
        "h36_400_header_mismatch"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.requires_param_headers = true;
        }
        None
    }
}
