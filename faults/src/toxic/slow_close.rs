//! Slow close: passes on the end of a connection with a delay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Behaviour;

/// Delays the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowClose {
    /// The delay in milliseconds.
    pub ms: u64,
}

impl Behaviour for SlowClose {
    fn end_delay(&self) -> Duration {
        Duration::from_millis(self.ms)
    }
}
