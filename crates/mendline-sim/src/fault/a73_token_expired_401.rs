//! A73: the credential expires from time to time; the server answers 401.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct TokenExpired;

impl Fault for TokenExpired {
    fn name(&self) -> &'static str {
        "a73_token_expired_401"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        self.repeat(world, at)
    }

    fn repeat(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.origins[at].authorization.expire();
        Some(world.rng.millis(1_000, 6_000))
    }
}
