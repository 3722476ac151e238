//! Reset: resets all open connections, and all new ones while it is installed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AcceptMode, Behaviour, ExistingConnections};

/// Resets all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {}

impl Behaviour for Reset {
    fn accept_mode(&self, _: Duration) -> (AcceptMode, Option<Duration>) {
        (AcceptMode::Reset, None)
    }

    fn on_existing(&self) -> ExistingConnections {
        ExistingConnections::Reset
    }
}
