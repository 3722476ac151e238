//! X97: the operator changes policies and transport in the configuration while calls run, and later reverts the change.
//! Open calls keep the policies of their arrival.

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
        world.reconfigure(at, Change::Policies, swap_limits);
        world.reconfigure(at, Change::Transport, swap_limits);
        None
    }

    fn end(&self, world: &mut World, at: usize) {
        world.reconfigure(at, Change::Policies, |_| {});
    }
}

/// Swaps generous and strict limits, so that a call with the wrong policy is detected.
fn swap_limits(config: &mut UpstreamConfig) {
    let seconds = Duration::from_secs;
    let swap = |time: &mut Duration, strict: Duration, generous: Duration| {
        *time = if *time > seconds(10) { strict } else { generous };
    };
    swap(&mut config.timeouts.call, seconds(2), seconds(30));
    swap(&mut config.timeouts.recovery, seconds(2), seconds(20));
    config.timeouts.total = config.timeouts.call * 3;
    config.retry.attempts = if config.retry.attempts < 3 { config.retry.attempts + 3 } else { 1 };
}
