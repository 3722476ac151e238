//! A75: the credential has expired, and its source cannot be reached.

use std::time::Duration;

use super::Fault;
use crate::authorization::SourceState;
use crate::world::World;

/// See the module.
pub(super) struct RefreshDown;

impl Fault for RefreshDown {
    fn name(&self) -> &'static str {
        "a75_refresh_down"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let authorization = &mut world.origins[at].authorization;
        authorization.expire();
        authorization.source = SourceState::Down;
        None
    }
}
