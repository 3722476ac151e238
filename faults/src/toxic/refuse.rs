//! Refuse: nobody listens. The port is kept, so that nobody else takes it in the meantime.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AcceptMode, Behaviour};

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {}

impl Behaviour for Refuse {
    fn accept_mode(&self, _: Duration) -> (AcceptMode, Option<Duration>) {
        (AcceptMode::Refuse, None)
    }
}
