//! Half open: the connections there are go silent, and neither side is told.
//!
//! As when a router forgets them, or a host vanishes and comes back: what exists is dead for good, what is dialed anew is
//! sound. Whoever waits on a dead one waits until it asks itself.

use serde::{Deserialize, Serialize};

use super::{Behaviour, ExistingConnections};

/// The connections there are go silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HalfOpen {}

impl Behaviour for HalfOpen {
    fn on_existing(&self) -> ExistingConnections {
        ExistingConnections::Silence
    }
}
