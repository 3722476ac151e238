//! A77: the server refuses every credential, the newest too.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct FreshTokenRefused;

impl Fault for FreshTokenRefused {
    fn name(&self) -> &'static str {
        "a77_401_with_fresh_token"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.origins[at].authorization.refuses_all = true;
        None
    }
}
