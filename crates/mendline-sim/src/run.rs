//! One seed from its first moment to its last: storm, healing, drain.
//!
//! 1. *Storm*: clients work while the planned faults strike. Safety is checked at every step.
//! 2. *Healing*: all faults end; every client that is still there must be served again within the bound of the promise.
//!    In some worlds nobody asks for a while first: what is dialed by itself must come back by itself.
//! 3. *Rest*: nothing new is asked, and whatever is still open must be answered by its deadline. Then what clients rely on is
//!    compared with what their servers know.
//! 4. *Drain*: the engine is told to stop, or its clients close their ends; it must answer, reap and finish. One world in
//!    five skips the healing: the end comes in the middle of the storm, with every fault in place.

use std::time::Duration;

use mendline_core::config::{OpenFor, Transport};
use mendline_core::{ClientId, Moment, UpstreamConfig, defaults};

use crate::check::Violation;
use crate::child::ProcessState;
use crate::client::{Client, Probe};
use crate::clock::Due;
use crate::coverage::Coverage;
use crate::rng::Rng;
use crate::exchange::Phase;
use crate::fact::Fact;
use crate::fault::{self, Planned};
use crate::journal::Journal;
use crate::machine::EngineKind;
use crate::plan::{Ending, Plan};
use crate::world::World;

/// What became of a seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which.
    pub seed: u64,
    /// The broken promise, if one was.
    pub violation: Option<Violation>,
    /// What was visited.
    pub coverage: Coverage,
    /// The number of its journal.
    pub number: u64,
    /// Its lines, if they were kept.
    pub lines: Vec<String>,
    /// How much time passed in it.
    pub simulated: Duration,
}

/// Served again after the healing: ten seconds and the greeting (promise, section 4), and the ladder for a child that had
/// to be ended first.
const RECOVERY: Duration = Duration::from_secs(10 + 5 + 4);

/// Lives one seed.
pub fn run(seed: u64, engine_kind: EngineKind, keep_lines: bool) -> Report {
    let plan = Plan::new(seed);
    let journal = if keep_lines { Journal::kept() } else { Journal::default() };
    let hosts = plan.pairs.iter().map(|pair| pair.host.clone()).collect();
    let mut world = World::new(engine_kind, &plan.config, seed, hosts, journal);
    populate(&mut world, &plan);
    fault_phase(&mut world, &plan);
    if !plan.abrupt {
        heal(&mut world, &plan);
        rest(&mut world, &plan);
    }
    drain(&mut world, &plan);
    world.close();
    let simulated = world.clock.now().since(Moment::ZERO);
    Report {
        seed,
        violation: world.violation.take(),
        number: world.journal.number(),
        lines: world.journal.take(),
        coverage: world.coverage,
        simulated,
    }
}

/// Lives one seed and, for one in sixteen, lives it again: the two must be the same to the letter (I15).
pub fn run_and_compare(seed: u64, engine_kind: EngineKind) -> Report {
    let mut report = run(seed, engine_kind, false);
    if report.violation.is_none() && seed.is_multiple_of(16) {
        let again = run(seed, engine_kind, false);
        if again.number != report.number {
            let text = format!("two runs of one seed differ: {:x} and {:x}", report.number, again.number);
            report.violation = Some(Violation { invariant: "I15 deterministic", at: Moment::ZERO, text });
        }
    }
    report
}

fn populate(world: &mut World, plan: &Plan) {
    let rng = Rng::new(plan.seed).fork(55);
    for (place, pair) in plan.pairs.iter().enumerate() {
        let id = ClientId(place as u32);
        let client = Client::new(
            id,
            place,
            pair.host.era,
            pair.workload.clone(),
            pair.client_capacity,
            pair.odd,
            rng.fork(place as u64),
        );
        if let Some(catalogue) = &pair.catalogue {
            world.preload_catalogue(place, catalogue);
        }
        world.connect_client(client);
        world.clock.after(rng.fork(90 + place as u64).millis(0, 50), Due::ClientActs(id));
        if plan.pairs.len() > 1 && place == plan.pairs.len() - 1 {
            world.record(&Fact::Unharmed(place));
        }
    }
    for scheduled in &plan.scheduled_faults {
        let at = Moment::ZERO + scheduled.at;
        let planned = Planned { fault: scheduled.fault, upstream: scheduled.upstream, at, lasts: scheduled.lasts, over: false };
        world.faults.push(planned);
        world.clock.at(at, Due::FaultBegins(world.faults.len() - 1));
    }
    world.settle_and_check();
}

fn fault_phase(world: &mut World, plan: &Plan) {
    world.run_until(Moment::ZERO + plan.fault_phase);
}

fn heal(world: &mut World, plan: &Plan) {
    for place in 0..world.faults.len() {
        fault::end(world, place);
    }
    for place in 0..world.hosts.len() {
        fault::restore(world, place);
        world.client_resumes(place);
    }
    world.healed = true;
    world.record(&Fact::Healed);
    world.settle_and_check();
    if plan.quiet {
        recover_without_calls(world, plan);
    }
    let until = world.clock.now() + RECOVERY;
    for client in &mut world.clients {
        if client.is_connected() && !client.closing {
            client.probe = Probe::Under(until);
            world.clock.after(Duration::from_millis(1), Due::ClientActs(client.id));
        }
    }
    while world.violation.is_none() && world.clients.iter().any(is_probing) && world.step(until) {}
    wait_for_breakers_and_pauses(world, plan, until);
    for place in 0..world.clients.len() {
        if is_probing(&world.clients[place]) {
            let id = world.clients[place].id;
            world.record(&Fact::StillDown(id));
        }
    }
}

/// Whoever is still held back by a breaker or a pause is served when that is over, and two calls have shown that all is well.
fn wait_for_breakers_and_pauses(world: &mut World, plan: &Plan, until: Moment) {
    let mut until = until;
    for place in 0..world.clients.len() {
        let upstream = world.clients[place].upstream;
        let config = &plan.config.upstreams[upstream];
        if is_probing(&world.clients[place]) && config.rate_limit.is_some() {
            // Those who came before it have their turn first.
            until = until.max(world.clock.now() + config.timeouts.recovery);
        }
        if is_probing(&world.clients[place]) && !world.flows(upstream) {
            let policy = config.breaker;
            let open_for = policy.map_or(Duration::ZERO, |policy| match policy.open_for {
                OpenFor::Exactly(time) => time,
                OpenFor::Growing { cap, .. } => cap + cap / 5,
            });
            until = until.max(world.clock.now() + open_for.max(defaults::PAUSE_CAP) + RECOVERY);
        }
    }
    while world.violation.is_none() && world.clients.iter().any(is_probing) && world.step(until) {}
}

/// Nobody wants anything, and children that are dialed by themselves are up again within the bound of the promise.
fn recover_without_calls(world: &mut World, plan: &Plan) {
    let healed = world.clock.now();
    for client in &mut world.clients {
        client.is_idle = true;
    }
    let bounds: Vec<_> = plan.config.upstreams.iter().enumerate().map(|(place, it)| bound(world, place, it)).collect();
    let is_late = |world: &World, now: Moment| {
        let late = |(place, bound): (usize, &Option<Duration>)| {
            bound.is_some_and(|bound| now >= healed + bound) && world.link(place) != "Up"
        };
        bounds.iter().enumerate().position(late)
    };
    let last = bounds.iter().flatten().max().copied().unwrap_or_default();
    while world.violation.is_none() && world.step(healed + last) {
        if let Some(place) = is_late(world, world.clock.now()) {
            return world.record(&Fact::StillDown(world.clients[place].id));
        }
    }
    for client in &mut world.clients {
        client.is_idle = false;
    }
}

/// How long an idle child may take: 40 s, or 60 s and its start if it is parked or somebody chose another pace.
fn bound(world: &World, place: usize, config: &UpstreamConfig) -> Option<Duration> {
    let is_meant = config.transport == Transport::Child
        && config.reconnect.is_by_itself()
        && world.clients[place].is_connected()
        && !world.clients[place].closing;
    let is_usual = config.reconnect.cap_idle == mendline_core::defaults::RECONNECT_CAP_IDLE
        && config.reconnect.initial == mendline_core::defaults::RECONNECT_INITIAL;
    let seconds = if is_usual && world.link(place) != "Parked" { 40 } else { 75 };
    is_meant.then_some(Duration::from_secs(seconds))
}

fn is_probing(client: &Client) -> bool {
    matches!(client.probe, Probe::Under(_)) && client.is_connected()
}

/// Lives until every request is answered; each has its own deadline, so this ends.
fn rest(world: &mut World, plan: &Plan) {
    let until = world.clock.now() + world.oracle.longest() + Duration::from_secs(1);
    while world.violation.is_none() && has_open_requests(world) && world.step(until) {}
    world.run_for(Duration::from_secs(1));
    if plan.checks_recovery && world.violation.is_none() {
        // What was lost is told to a new session a few things at a time, and lists are read page by page.
        world.run_for(Duration::from_secs(15));
        world.compare_state();
    }
}

fn has_open_requests(world: &World) -> bool {
    world.oracle.unanswered().any(|(_, record)| record.method != mendline_wire::Method::SubscriptionsListen)
}

fn drain(world: &mut World, plan: &Plan) {
    if world.violation.is_some() {
        return;
    }
    if plan.abrupt {
        // A good moment to end is while a child or a connection is being made; if none comes, any other will do.
        let until = world.clock.now() + Duration::from_secs(3);
        let is_starting = |world: &World| {
            world.children.values().any(|child| child.state == ProcessState::Spawning)
                || world.exchanges.values().any(|exchange| matches!(exchange.phase, Phase::Connecting(_)))
        };
        while !is_starting(world) && world.violation.is_none() && world.step(until) {}
    }
    // The last requests are made right before the end, so that there is something to drain.
    for place in 0..world.clients.len() {
        // Whoever does not read gets no last words either, and that would be nobody's fault.
        world.client_resumes(place);
        let World { clients, oracle, .. } = &mut *world;
        if clients[place].is_connected() && !clients[place].closing {
            clients[place].probe_call(oracle);
        }
    }
    world.settle_and_check();
    match plan.ending {
        Ending::Stop => world.stop(),
        Ending::StopTwice => {
            world.stop();
            world.stop();
        }
        Ending::ClientsEnd => {
            world.record(&Fact::Closing);
            for client in world.clients.iter_mut().filter(|client| client.is_connected()) {
                client.closing = true;
            }
            world.settle_and_check();
        }
    }
    let patience = match plan.ending {
        Ending::ClientsEnd => world.oracle.longest(),
        Ending::Stop | Ending::StopTwice => Duration::ZERO,
    };
    let until = world.clock.now() + patience + crate::check::END_BOUND + Duration::from_secs(1);
    while world.violation.is_none() && world.finished.is_none() && world.step(until) {}
    if world.finished.is_none() {
        world.record(&Fact::NeverFinished);
    }
    // What was written to the clients before the end is theirs to read.
    let last = world.clock.now() + Duration::from_secs(1);
    world.run_until(last);
}
