//! M66: numeric ids come back as strings.

use std::time::Duration;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct IdTypeChanged;

impl Fault for IdTypeChanged {
    fn name(&self) -> &'static str {
        "m66_id_type_changed"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.hosts[at].faults.ids_as_strings = true;
        None
    }
}
