//! The client tells its server more at once than may be under way at a time. All of it arrives or is counted, and nothing
//! else is held up.

use std::time::Duration;

use bytes::Bytes;

use super::Fault;
use crate::client::ClientState;
use crate::server::Era;
use crate::world::World;

/// See the module.
pub(super) struct NotificationBurst;

impl Fault for NotificationBurst {
    fn name(&self) -> &'static str {
        "notification_burst"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let count = world.rng.between(20, 100);
        let client = &mut world.clients[at];
        // The modern era knows no notification that a client may send at any time.
        if client.state == ClientState::Ready && client.era == Era::Legacy {
            let line = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
            client.outbox.extend((0..count).map(|_| (line.clone(), Vec::new())));
        }
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
