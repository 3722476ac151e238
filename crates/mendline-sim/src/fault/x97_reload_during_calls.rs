//! Somebody edits the configuration, in the middle of everything: now its policies, now the way to a server; and takes the
//! edit back after a while. Calls that run meanwhile are under the policies that they came under.

use std::time::Duration;

use mendline_core::UpstreamConfig;
use mendline_core::port::Change;

use super::Fault;
use crate::world::World;

/// See the module.
pub(super) struct ReloadDuringCalls;

impl Fault for ReloadDuringCalls {
    fn name(&self) -> &'static str {
        "x97_reload_during_calls"
    }

    fn begin(&self, world: &mut World, at: usize) -> Option<Duration> {
        world.reconfigure(at, Change::Policies, turn_around);
        world.reconfigure(at, Change::Way, turn_around);
        None
    }

    fn end(&self, world: &mut World, at: usize) {
        world.reconfigure(at, Change::Policies, |_| {});
    }
}

/// What was generous becomes strict, and what was strict generous: a call that took the new policy would have too much of
/// one thing or too little of another.
fn turn_around(config: &mut UpstreamConfig) {
    let seconds = Duration::from_secs;
    let turned = |time: &mut Duration, strict: Duration, generous: Duration| {
        *time = if *time > seconds(10) { strict } else { generous };
    };
    turned(&mut config.timeouts.call, seconds(2), seconds(30));
    turned(&mut config.timeouts.recovery, seconds(2), seconds(20));
    config.timeouts.total = config.timeouts.call * 3;
    config.retry.attempts = if config.retry.attempts < 3 { config.retry.attempts + 3 } else { 1 };
}
