//! One run of a seed: fault phase, recovery, rest, drain.
//!
//! 1. *Fault phase*: clients work while the scheduled faults occur. Safety is checked at every step.
//! 2. *Recovery*: all faults end; every connected client must be served again within its bound. In some worlds the
//!    clients pause first: links that reconnect on their own must come back without a call.
//! 3. *Rest*: no new requests; every open one must be answered by its deadline. Then the state that clients rely on is
//!    compared with the state of their servers.
//! 4. *Drain*: the engine is told to stop, or its clients close their outputs; it must answer, reap and finish. One
//!    world in five skips the recovery and ends during the fault phase.

use std::time::Duration;

use mendline_core::config::{OpenFor, Transport};
use mendline_core::{ClientId, Moment, UpstreamConfig, defaults};

use crate::check::Violation;
use crate::child::ProcessState;
use crate::client::{Client, Probe};
use crate::clock::Due;
use crate::coverage::Coverage;
use crate::exchange::Phase;
use crate::fact::Fact;
use crate::fault::{self, Planned};
use crate::journal::Journal;
use crate::machine::EngineKind;
use crate::plan::{Ending, Plan};
use crate::rng::Rng;
use crate::world::World;

/// The result of a seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The broken invariant.
    pub violation: Option<Violation>,
    /// The coverage.
    pub coverage: Coverage,
    /// The hash of its journal.
    pub number: u64,
    /// The lines of its journal, if they were kept.
    pub lines: Vec<String>,
    /// The simulated time.
    pub simulated: Duration,
}

/// Time until a client is served again after the faults: ten seconds and the handshake (PROMISE.md, section 4), and the
/// shutdown sequence for a child that must be ended first.
const RECOVERY: Duration = Duration::from_secs(10 + 5 + 4);

/// Runs one seed.
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

/// Runs one seed. One seed in sixteen runs twice, and both runs must be identical (I15).
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
    for (index, pair) in plan.pairs.iter().enumerate() {
        let id = ClientId(index as u32);
        let client = Client::new(
            id,
            index,
            pair.host.era,
            pair.workload.clone(),
            pair.client_capacity,
            pair.odd,
            rng.fork(index as u64),
        );
        if let Some(catalogue) = &pair.catalogue {
            world.preload_catalogue(index, catalogue);
        }
        world.connect_client(client);
        world.clock.after(rng.fork(90 + index as u64).millis(0, 50), Due::ClientActs(id));
        if plan.pairs.len() > 1 && index == plan.pairs.len() - 1 {
            world.record(&Fact::WithoutFaults(index));
        }
    }
    for (index, guest) in plan.guests.iter().enumerate() {
        world.guests.push(guest.clone());
        world.clock.at(Moment::ZERO + guest.at, Due::GuestConnects(index));
    }
    for scheduled in &plan.scheduled_faults {
        let at = Moment::ZERO + scheduled.at;
        let planned =
            Planned { fault: scheduled.fault, upstream: scheduled.upstream, at, lasts: scheduled.lasts, over: false };
        world.faults.push(planned);
        world.clock.at(at, Due::FaultBegins(world.faults.len() - 1));
    }
    world.settle_and_check();
}

fn fault_phase(world: &mut World, plan: &Plan) {
    world.run_until(Moment::ZERO + plan.fault_phase);
}

fn heal(world: &mut World, plan: &Plan) {
    for index in 0..world.faults.len() {
        fault::end(world, index);
    }
    for index in 0..world.hosts.len() {
        fault::restore(world, index);
        world.client_resumes(index);
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
    for index in 0..world.clients.len() {
        if is_probing(&world.clients[index]) {
            let id = world.clients[index].id;
            world.record(&Fact::StillDown(id));
        }
    }
}

/// Waits for clients that a breaker or a pause still holds back, until the breaker has closed.
fn wait_for_breakers_and_pauses(world: &mut World, plan: &Plan, until: Moment) {
    let mut until = until;
    for index in 0..world.clients.len() {
        let upstream = world.clients[index].upstream;
        let config = &plan.config.upstreams[upstream];
        let has_rate = config.rate_limit.is_some() || config.tools.values().any(|tool| tool.rate_limit.is_some());
        if is_probing(&world.clients[index]) && has_rate {
            // Earlier calls are sent first.
            until = until.max(world.clock.now() + config.timeouts.recovery);
        }
        if is_probing(&world.clients[index]) && world.flows(upstream) && world.is_shared(upstream) {
            // The breaker has closed for another client; this one repeats its call every half second.
            until = until.max(world.clock.now() + Duration::from_secs(1));
        }
        if is_probing(&world.clients[index]) && !world.flows(upstream) {
            let policies = config.tools.values().filter_map(|tool| tool.breaker.flatten()).chain(config.breaker);
            let open_for = policies.map(|policy| match policy.open_for {
                OpenFor::Exactly(time) => time,
                OpenFor::Growing { cap, .. } => cap + cap / 5,
            });
            let open_for = open_for.max().unwrap_or_default();
            until = until.max(world.clock.now() + open_for.max(defaults::PAUSE_CAP) + RECOVERY);
        }
    }
    while world.violation.is_none() && world.clients.iter().any(is_probing) && world.step(until) {}
}

/// Pauses all clients. Children that reconnect on their own must be up within their bound.
fn recover_without_calls(world: &mut World, plan: &Plan) {
    let healed = world.clock.now();
    for client in &mut world.clients {
        client.is_idle = true;
    }
    let bounds: Vec<_> = plan.config.upstreams.iter().enumerate().map(|(index, it)| bound(world, index, it)).collect();
    let is_late = |world: &World, now: Moment| {
        let late = |(index, bound): (usize, &Option<Duration>)| {
            bound.is_some_and(|bound| now >= healed + bound) && world.link(index) != "Up"
        };
        bounds.iter().enumerate().position(late)
    };
    let last = bounds.iter().flatten().max().copied().unwrap_or_default();
    while world.violation.is_none() && world.step(healed + last) {
        if let Some(index) = is_late(world, world.clock.now()) {
            return world.record(&Fact::StillDown(world.clients[index].id));
        }
    }
    for client in &mut world.clients {
        client.is_idle = false;
    }
}

/// Returns the bound for an idle child: 40 s, or 75 s if it is parked or the delays are configured.
fn bound(world: &World, index: usize, config: &UpstreamConfig) -> Option<Duration> {
    let is_meant = config.transport == Transport::Child
        && config.reconnect.is_by_itself()
        && world.clients[index].is_connected()
        && !world.clients[index].closing;
    let is_usual = config.reconnect.cap_idle == mendline_core::defaults::RECONNECT_CAP_IDLE
        && config.reconnect.initial == mendline_core::defaults::RECONNECT_INITIAL;
    let seconds = if is_usual && world.link(index) != "Parked" { 40 } else { 75 };
    is_meant.then_some(Duration::from_secs(seconds))
}

fn is_probing(client: &Client) -> bool {
    matches!(client.probe, Probe::Under(_)) && client.is_connected()
}

/// Runs until every request is answered. Each has a deadline, so this ends.
fn rest(world: &mut World, plan: &Plan) {
    let until = world.clock.now() + world.oracle.longest() + Duration::from_secs(1);
    while world.violation.is_none() && has_open_requests(world) && world.step(until) {}
    world.run_for(Duration::from_secs(1));
    if plan.checks_recovery && world.violation.is_none() {
        // Session state is restored a few requests at a time, and lists are read page by page.
        world.run_for(Duration::from_secs(15));
        // A lost server without automatic reconnects is dialed by the next call; until then no list is read again.
        world.compare_state(|world, index| {
            plan.config.upstreams[index].reconnect.is_by_itself() || world.link(index) == "Up"
        });
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
        // Prefers to stop while a child or a connection is being started.
        let until = world.clock.now() + Duration::from_secs(3);
        let is_starting = |world: &World| {
            world.children.values().any(|child| child.state == ProcessState::Spawning)
                || world.exchanges.values().any(|exchange| matches!(exchange.phase, Phase::Connecting(_)))
        };
        while !is_starting(world) && world.violation.is_none() && world.step(until) {}
    }
    // Sends requests right before the end, so that there is something to drain.
    for index in 0..world.clients.len() {
        // A client that does not read cannot receive its last answers.
        world.client_resumes(index);
        let World { clients, oracle, .. } = &mut *world;
        if clients[index].is_connected() && !clients[index].closing {
            clients[index].probe_call(oracle);
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
            world.reattach_all_streams();
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
    // Clients read what was written before the end.
    let last = world.clock.now() + Duration::from_secs(1);
    world.run_until(last);
}
