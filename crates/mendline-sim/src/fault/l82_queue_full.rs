//! L82: no call is answered and the client sends calls until every slot is taken. Further calls are rejected at once.

use std::time::Duration;

use super::Fault;
use crate::client::{CREATE_NOTE, ClientState};
use crate::world::World;

/// See the module.
pub(super) struct QueueFull;

impl Fault for QueueFull {
    fn name(&self) -> &'static str {
        "l82_queue_full"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.calls_hang = true;
        // With the large default limits most worlds only come near them, to save time.
        let call_slots = world.hosts[at].call_slots;
        let calls = if call_slots <= 64 || world.rng.percent(10) { call_slots + 8 } else { 100 };
        let World { clients, oracle, .. } = world;
        let client = &mut clients[at];
        if client.state == ClientState::Ready {
            for _ in 0..calls {
                client.send_request(CREATE_NOTE, oracle);
            }
        }
        None
    }
}
