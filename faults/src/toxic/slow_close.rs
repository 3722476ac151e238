//! Slow close: the sender has ended, and the receiver hears of it later.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Behaviour;

/// The end of a connection is passed on later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowClose {
    /// By so many milliseconds.
    pub ms: u64,
}

impl Behaviour for SlowClose {
    fn end_delay(&self) -> Duration {
        Duration::from_millis(self.ms)
    }
}
