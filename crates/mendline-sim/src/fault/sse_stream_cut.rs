//! The long streams are cut: a trunk, with which its session goes, or the stream for notices.

use std::time::Duration;

use super::Fault;
use crate::site::{Site, HttpServerKind};
use crate::world::World;

/// See the module.
pub(super) struct SseStreamCut;

impl Fault for SseStreamCut {
    fn name(&self) -> &'static str {
        "trunk_cut"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.cut_long_streams(at);
        Some(world.rng.millis(100, 10_000))
    }

    fn prepare(&self, site: &mut Site) {
        // Half of them are trunks, and half are streams for notices.
        if site.names {
            site.keep_sessions();
        } else if site.kind != HttpServerKind::Modern {
            site.kind = HttpServerKind::Sse;
        }
    }
}
