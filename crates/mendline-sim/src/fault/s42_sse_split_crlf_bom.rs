//! S42: events have every kind of line end, a byte order mark and comments, and arrive in small pieces.

use std::time::Duration;

use super::Fault;
use crate::site::Site;
use crate::world::World;

/// See the module.
pub(super) struct SplitCrlfBom;

impl Fault for SplitCrlfBom {
    fn name(&self) -> &'static str {
        "s42_sse_split_crlf_bom"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.odd_frames = true;
        }
        None
    }

    fn prepare(&self, site: &mut Site) {
        site.events = 100;
    }
}
