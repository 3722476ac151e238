//! Partition: stops one direction or both. After its removal everything continues.
//!
//! As in TCP, bytes that were sent meanwhile are delayed and not lost.

use serde::{Deserialize, Serialize};

use super::{Behaviour, Flow};

/// Stops bytes without losing them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {}

impl Behaviour for Partition {
    fn flow(&self) -> Flow {
        Flow::Hold
    }
}
