//! A75, its end: the credential has expired, and its source has no other until a person acts.

use std::time::Duration;

use super::Fault;
use crate::authorization::SourceState;
use crate::world::World;

/// See the module.
pub(super) struct LoginEnded;

impl Fault for LoginEnded {
    fn name(&self) -> &'static str {
        "a75_login_ended"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let authorization = &mut world.origins[at].authorization;
        authorization.expire();
        authorization.source = SourceState::Ended;
        None
    }
}
