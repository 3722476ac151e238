//! Partition: nothing passes while it is there, one way or both, and when it is healed everything goes on.
//!
//! As TCP has it: what was sent in between was not lost, only not delivered.

use serde::{Deserialize, Serialize};

use super::{Flow, Behaviour};

/// Nothing passes for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {}

impl Behaviour for Partition {
    fn flow(&self) -> Flow {
        Flow::Hold
    }
}
