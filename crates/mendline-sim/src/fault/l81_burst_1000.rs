//! L81: a thousand calls at once. Calls run, wait or are rejected by the limits; none is lost.

use std::time::Duration;

use super::Fault;
use crate::client::{CREATE_NOTE, ClientState, READ_NOTE};
use crate::world::World;

/// See the module.
pub(super) struct Burst1000;

impl Fault for Burst1000 {
    fn name(&self) -> &'static str {
        "l81_burst_1000"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        // Most worlds get a smaller burst to save time; the limits are the same.
        let calls = if world.rng.percent(5) { 1_000 } else { world.rng.between(20, 150) };
        let World { clients, oracle, rng, .. } = world;
        let client = &mut clients[at];
        if client.state == ClientState::Ready {
            for _ in 0..calls {
                client.send_request(if rng.percent(50) { READ_NOTE } else { CREATE_NOTE }, oracle);
            }
        }
        None
    }

    fn end(&self, _: &mut World, _: usize) {}
}
