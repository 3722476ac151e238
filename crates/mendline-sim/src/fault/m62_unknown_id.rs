//! M62: the server answers unknown requests, with numeric, string and missing ids.

use std::time::Duration;

use bytes::Bytes;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct UnknownId;

impl Fault for UnknownId {
    fn name(&self) -> &'static str {
        "m62_unknown_id"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        const LINES: &[&[u8]] = &[
            br#"{"jsonrpc":"2.0","id":999999999999,"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":"absent","result":{"content":[]}}"#,
            br#"{"jsonrpc":"2.0","id":-1,"result":{}}"#,
            br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#,
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":424242}}"#,
            br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":424242,"progress":1}}"#,
        ];
        for link in world.living(at) {
            let line = *world.rng.pick(LINES);
            world.child_writes(link, Bytes::from_static(line));
        }
        Some(world.rng.millis(1, 800))
    }
}
