//! L83: the client stops reading and continues to send requests.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct SlowClient;

impl Fault for SlowClient {
    fn name(&self) -> &'static str {
        "l83_slow_client"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.clients[at].reads = false;
        None
    }

    fn end(&self, world: &mut World, at: usize) {
        world.client_resumes(at);
    }
}
