//! S48: the server prints lines that are not messages to its stdout. They are skipped and reported.

use std::time::Duration;

use bytes::Bytes;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct StdoutNoise;

impl Fault for StdoutNoise {
    fn name(&self) -> &'static str {
        "s48_stdout_noise"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        const LINES: &[&[u8]] = &[
            b"Server listening on stdio",
            b"{not json}",
            b"[]",
            b"null",
            br#"{"level":"info","msg":"a log line"}"#,
            b"\xff\xfe\x00broken",
            br#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            b"[[[[[[[[",
        ];
        for link in world.living(at) {
            let line = *world.rng.pick(LINES);
            world.child_writes(link, Bytes::from_static(line));
        }
        Some(world.rng.millis(1, 1_000))
    }
}
