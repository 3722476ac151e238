//! Black hole: accepts connections and discards everything that is sent on them.
//!
//! A connection that was open while the toxic was installed stays dead after its removal.

use serde::{Deserialize, Serialize};

use super::{Behaviour, Flow};

/// Discards everything, for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlackHole {}

impl Behaviour for BlackHole {
    fn flow(&self) -> Flow {
        Flow::Dead
    }
}
