//! Flap: alternates between down and up. Each time it goes down, all connections are reset and new ones are refused.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AcceptMode, Behaviour, ExistingConnections};

/// Alternates between down and up, beginning with down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flap {
    /// The time for which it is down, in milliseconds.
    pub down_ms: u64,
    /// The time for which it is up, in milliseconds.
    pub up_ms: u64,
}

impl Behaviour for Flap {
    fn accept_mode(&self, elapsed: Duration) -> (AcceptMode, Option<Duration>) {
        // A period of zero would make the proxy a busy loop.
        let period = self.down_ms.saturating_add(self.up_ms).max(1);
        let at = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX) % period;
        let (accept_mode, until) =
            if at < self.down_ms { (AcceptMode::Refuse, self.down_ms) } else { (AcceptMode::Accept, period) };
        (accept_mode, Some(Duration::from_millis((until - at).max(1))))
    }

    fn on_existing(&self) -> ExistingConnections {
        ExistingConnections::Reset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flap_begins_down_and_returns_the_next_change() {
        let flap = Flap { down_ms: 100, up_ms: 900 };
        let at = |ms: u64| flap.accept_mode(Duration::from_millis(ms));
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        assert_eq!(at(0), (AcceptMode::Refuse, ms(100)));
        assert_eq!(at(99), (AcceptMode::Refuse, ms(1)));
        assert_eq!(at(100), (AcceptMode::Accept, ms(900)));
        assert_eq!(at(1_050), (AcceptMode::Refuse, ms(50)));
        assert_eq!(Flap { down_ms: 0, up_ms: 0 }.accept_mode(Duration::ZERO), (AcceptMode::Accept, ms(1)));
    }
}
