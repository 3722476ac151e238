//! C88: the client reuses the id of an open request. Both requests are answered.

use std::time::Duration;

use super::Fault;
use crate::client::{ClientState, READ_NOTE};
use crate::world::World;

/// See the module.
pub(super) struct ReusesId;

impl Fault for ReusesId {
    fn name(&self) -> &'static str {
        "c88_reuses_id"
    }

    fn begin(&self, _: &mut World, _: usize) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        let World { clients, oracle, .. } = world;
        let client = &mut clients[at];
        match client.an_open_id(oracle) {
            Some(id) if client.state == ClientState::Ready => {
                client.send_request_with_id(READ_NOTE, &id, oracle);
                None
            }
            _ => Some(Duration::from_millis(40)),
        }
    }

    fn end(&self, _: &mut World, _: usize) {}
}
