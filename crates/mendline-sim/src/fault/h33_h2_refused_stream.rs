//! H33: the server refuses streams (`REFUSED_STREAM`), so it has not processed the request.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct RefusedStream;

impl Fault for RefusedStream {
    fn name(&self) -> &'static str {
        "h33_h2_refused_stream"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let chance = *world.rng.pick(&[20, 50, 100]);
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.refuses_streams = Some(chance);
        }
        None
    }
}
