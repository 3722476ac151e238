//! Reset: every connection ends with a RST, those there are and those that come while it is there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Door, Behaviour, ExistingConnections};

/// Everything is reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {}

impl Behaviour for Reset {
    fn door(&self, _: Duration) -> (Door, Option<Duration>) {
        (Door::Resets, None)
    }

    fn on_existing(&self) -> ExistingConnections {
        ExistingConnections::Reset
    }
}
