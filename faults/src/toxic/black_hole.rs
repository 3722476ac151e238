//! Black hole: connections are accepted, and nothing that is sent on them arrives anywhere.
//!
//! What falls in does not come out: a connection that it has caught stays dead when it is taken away.

use serde::{Deserialize, Serialize};

use super::{Flow, Behaviour};

/// Nothing passes, and what is caught stays dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlackHole {}

impl Behaviour for BlackHole {
    fn flow(&self) -> Flow {
        Flow::Dead
    }
}
