//! The plan of a seed: upstreams, clients, faults and their times.
//!
//! A plan is drawn completely before the world begins, so that it can be printed. Small limits, small pipes and short
//! deadlines are as likely as the defaults, so that limits are reached. In worlds with several upstreams the last one
//! has no faults, for I10. About a third of the upstreams use HTTP. HTTP, recovery policies, limits and startup each
//! have their own random number generator, so that the addition of one does not change the others. Two worlds in three
//! have recovery policies, clients with session state, and more faults that require recovery. About half of the worlds
//! have breakers, rate limits and tool timeouts, and more faults that make a server unhealthy or overloaded. One world
//! in eight lasts long enough for silent calls and has faults that cause them. One in five has limits of tools and rules
//! for statuses. One in five has renewable credentials (`plan/credentials.rs`).

mod credentials;
mod display;
mod features;
mod pair;
mod policies;
mod schedule;

use std::time::Duration;

use mendline_core::config::Transport;
use mendline_core::{Config, Lifetime};

use self::features::Features;
use self::pair::{dialect, guests, move_to_http, pair, upstream};
use self::schedule::scheduled_faults;
use crate::catalogue::CachedCatalogue;
use crate::client::Workload;
use crate::fault::{self, Fault};
use crate::rng::Rng;
use crate::world::Host;

/// The label of the generator for HTTP. With this value the seeds of the regressions keep their children.
const HTTP: u64 = 208;

/// The label of the generator for recovery policies. With this value the seeds of the regressions have none.
const RECOVERY_POLICIES: u64 = 386;

/// The label of the generator for breakers and limits. With this value the seeds of the regressions have none.
const LIMITS: u64 = 500;

/// The label of the generator for startup. With this value the seeds of the regressions have none.
const STARTUP: u64 = 460;

/// The label of the generator for silent calls. With this value the seeds of the regressions have none.
const SILENCE: u64 = 436;

/// The label of the generator for limits of tools and rules for statuses. With this value the seeds of the regressions
/// have none.
const TOOL_POLICIES: u64 = 637;

/// The label of the generator for further clients. With this value the seeds of the regressions have none.
const GUESTS: u64 = 701;

/// The end of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The engine is told to stop.
    Stop,
    /// The engine is told to stop twice at once.
    StopTwice,
    /// The clients close their outputs.
    ClientsEnd,
}

/// One upstream and its client.
pub struct Pair {
    /// The host.
    pub host: Host,
    /// The workload of the client.
    pub workload: Workload,
    /// Capacity of the pipe to the client in bytes.
    pub client_capacity: u64,
    /// Whether both use unusual JSON.
    pub odd: bool,
    /// The cached catalogue.
    pub catalogue: Option<CachedCatalogue>,
}

/// Another client of an upstream, which comes and may go.
#[derive(Clone)]
pub struct Guest {
    /// The upstream.
    pub upstream: usize,
    /// The time at which it connects.
    pub at: Duration,
    /// The time after which it leaves.
    pub stays: Option<Duration>,
    /// Its workload.
    pub workload: Workload,
}

/// A scheduled fault.
#[derive(Clone, Copy)]
pub struct ScheduledFault {
    /// The fault.
    pub fault: &'static dyn Fault,
    /// The upstream.
    pub upstream: usize,
    /// The start.
    pub at: Duration,
    /// The duration.
    pub lasts: Duration,
}

/// The plan of a seed.
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The configuration of the engine.
    pub config: Config,
    /// The upstreams and their clients.
    pub pairs: Vec<Pair>,
    /// Further clients of these upstreams.
    pub guests: Vec<Guest>,
    /// The scheduled faults.
    pub scheduled_faults: Vec<ScheduledFault>,
    /// The duration of the fault phase.
    pub fault_phase: Duration,
    /// The end of the world.
    pub ending: Ending,
    /// The world ends during the fault phase.
    pub abrupt: bool,
    /// Recovery policies are configured, clients rely on session state, and the recovered state is compared at the end.
    pub checks_recovery: bool,
    /// After the faults the clients pause for a while.
    pub quiet: bool,
}

impl Plan {
    /// Draws the plan of this seed.
    pub fn new(seed: u64) -> Plan {
        let mut rng = Rng::new(seed);
        let count = *rng.pick(&[1, 1, 1, 2, 2, 3]);
        let fault_phase = Duration::from_secs(*rng.pick(&[3, 5, 10, 20, 60, 150]));
        let ending = *rng.pick(&[Ending::Stop, Ending::Stop, Ending::StopTwice, Ending::ClientsEnd]);
        let mut features = Features::draw(&rng);
        let checks_recovery = features.recovery.is_some();
        let quiet = features.recovery.as_mut().is_some_and(|rng| rng.percent(25));
        let fault_phase = if features.silence.is_some() { Duration::from_secs(150) } else { fault_phase };
        let mut config = Config::new(Vec::new());
        config.lifetime = if ending == Ending::ClientsEnd { Lifetime::WithClients } else { Lifetime::UntilStopped };
        let mut pairs = Vec::new();
        for index in 0..count {
            let mut rng = rng.fork(100 + index as u64);
            let has_no_faults = count > 1 && index == count - 1;
            let mut upstream = upstream(index, has_no_faults, &mut rng);
            let mut pair = pair(&upstream, has_no_faults, fault_phase, &mut rng);
            let mut http_rng = rng.fork(HTTP);
            if http_rng.percent(35) {
                move_to_http(&mut upstream, &mut pair, has_no_faults, &mut http_rng);
            }
            features.configure(index, has_no_faults, &mut upstream, &mut pair);
            pairs.push(pair);
            config.upstreams.push(upstream);
        }
        let faulty_upstreams = if count > 1 { count - 1 } else { 1 };
        let over_http: Vec<bool> = pairs.iter().map(|pair| pair.host.site.is_some()).collect();
        let mut scheduled_faults = scheduled_faults(faulty_upstreams, &over_http, fault_phase, &mut rng.fork(7));
        features.add_faults(&pairs, faulty_upstreams, fault_phase, &mut scheduled_faults);
        credentials::choose(
            &mut config,
            &over_http,
            faulty_upstreams,
            &mut scheduled_faults,
            fault_phase,
            &mut rng.fork(credentials::LABEL),
        );
        let mut last = rng.fork(8);
        for (index, (pair, upstream)) in pairs.iter_mut().zip(&mut config.upstreams).enumerate() {
            if let Some(site) = &mut pair.host.site {
                let own = scheduled_faults.iter().filter(|scheduled| scheduled.upstream == index);
                own.for_each(|scheduled| scheduled.fault.prepare(site));
                if upstream.resume_attempts == 0 {
                    // A server that closes its responses to be resumed works only with clients that resume. Faults
                    // prepare such servers too, so this comes last.
                    site.polls = 0;
                }
                upstream.transport = Transport::Http(dialect(site.kind, &mut last.fork(index as u64)));
            }
        }
        let abrupt = last.percent(20);
        if abrupt
            && last.percent(30)
            && let Some(fault) = fault::by_name(if over_http[0] { "n05_connect_refused" } else { "p61_spawn_eagain" })
        {
            // The world ends while nothing can be started or reached, so that waiting links must end too.
            scheduled_faults.push(ScheduledFault { fault, upstream: 0, at: fault_phase * 9 / 10, lasts: fault_phase });
        }
        let guests = guests(&pairs, fault_phase, checks_recovery, &mut rng.fork(GUESTS));
        Plan { seed, config, pairs, guests, scheduled_faults, fault_phase, ending, abrupt, checks_recovery, quiet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the generator of this label adds something to this seed.
    fn is_changed(seed: u64, label: u64, percent: u64) -> bool {
        let mut rng = Rng::new(seed);
        rng.pick(&[1, 1, 1, 2, 2, 3]);
        rng.pick(&[3, 5, 10, 20, 60, 150]);
        rng.pick(&[Ending::Stop, Ending::Stop, Ending::StopTwice, Ending::ClientsEnd]);
        rng.fork(label).percent(percent)
    }

    #[test]
    fn regression_seeds_keep_their_plans() {
        let broken = [12, 35, 183, 423, 652, 3206, 3298, 3805, 3938, 4380, 4437, 4617, 5272, 7412];
        for (label, percent) in [(STARTUP, 25), (SILENCE, 12), (TOOL_POLICIES, 20)] {
            let spares = |label: &u64| broken.iter().all(|seed| !is_changed(*seed, *label, percent));
            assert!(spares(&label), "{label} would change them; {:?} would not", (400..10_000).find(spares));
        }
    }
}
