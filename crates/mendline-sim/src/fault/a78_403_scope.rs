//! A78: one tool needs a credential with more permissions; the source may have one.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct ScopeMissing;

impl Fault for ScopeMissing {
    fn name(&self) -> &'static str {
        "a78_403_scope"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        let lacks_permissions = world.rng.percent(50);
        let authorization = &mut world.origins[at].authorization;
        authorization.permitted_from = authorization.current + 1;
        authorization.lacks_permissions = lacks_permissions;
        None
    }
}
