//! The long-lived streams are cut: an SSE stream, which ends its session, or the notification stream.

use std::time::Duration;

use super::Fault;
use crate::site::{HttpServerKind, Site};
use crate::world::World;

/// See the module.
pub(super) struct SseStreamCut;

impl Fault for SseStreamCut {
    fn name(&self) -> &'static str {
        "sse_stream_cut"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.cut_long_streams(at);
        Some(world.rng.millis(100, 10_000))
    }

    fn prepare(&self, site: &mut Site) {
        // Half of the servers use SSE streams, and half use notification streams.
        if site.names {
            site.keep_sessions();
        } else if site.kind != HttpServerKind::Modern {
            site.kind = HttpServerKind::Sse;
        }
    }
}
