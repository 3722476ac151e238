//! Refuse: refuses new connections. The port stays bound, so that no other process takes it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AcceptMode, Behaviour};

/// Refuses new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {}

impl Behaviour for Refuse {
    fn accept_mode(&self, _: Duration) -> (AcceptMode, Option<Duration>) {
        (AcceptMode::Refuse, None)
    }
}
