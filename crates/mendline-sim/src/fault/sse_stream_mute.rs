//! An SSE stream opens without an `endpoint` event, so that nothing can be sent.

use std::time::Duration;

use super::Fault;
use crate::site::{HttpServerKind, Site};
use crate::world::World;

/// See the module.
pub(super) struct SseStreamMute;

impl Fault for SseStreamMute {
    fn name(&self) -> &'static str {
        "sse_stream_mute"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        if let Some(site) = &mut world.hosts[at].site {
            site.faults.omits_endpoint = true;
        }
        world.cut_long_streams(at);
        None
    }

    fn prepare(&self, site: &mut Site) {
        if site.kind != HttpServerKind::Modern {
            site.kind = HttpServerKind::Sse;
        }
    }
}
