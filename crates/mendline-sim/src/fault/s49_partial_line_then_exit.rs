//! S49: the server exits while it writes an answer.

use std::time::Duration;

use bytes::Bytes;

use super::Fault;
use crate::clock::Ending;
use crate::world::World;

/// See the module.
pub(super) struct PartialLineThenExit;

impl Fault for PartialLineThenExit {
    fn name(&self) -> &'static str {
        "s49_partial_line_then_exit"
    }

    fn begin(&self, _: &mut World, _: usize) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        for link in world.living(at) {
            if let Some(id) = world.children.get(&link).and_then(|child| child.server.an_open_id()) {
                let half = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"te"#);
                world.child_writes(link, Bytes::from(half));
                world.kill(at, Ending::Code(1));
                return None;
            }
        }
        Some(Duration::from_millis(30))
    }

    fn end(&self, _: &mut World, _: usize) {}
}
