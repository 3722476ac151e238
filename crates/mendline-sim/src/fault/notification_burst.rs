//! The client sends more notifications at once than may be in flight. All of them arrive or are counted, and nothing
//! else is delayed.

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
        // In the modern era a client has no notification that it may send at any time.
        if client.state == ClientState::Ready && client.era == Era::Legacy {
            let line = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
            client.outbox.extend((0..count).map(|_| (line.clone(), Vec::new())));
        }
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
