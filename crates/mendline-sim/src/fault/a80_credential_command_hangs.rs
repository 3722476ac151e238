//! A80: the credential has expired, and its source does not answer.

use std::time::Duration;

use super::Fault;
use crate::authorization::SourceState;
use crate::world::World;

/// See the module.
pub(super) struct SourceHangs;

impl Fault for SourceHangs {
    fn name(&self) -> &'static str {
        "a80_credential_command_hangs"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let authorization = &mut world.origins[at].authorization;
        authorization.expire();
        authorization.source = SourceState::Hangs;
        None
    }
}
