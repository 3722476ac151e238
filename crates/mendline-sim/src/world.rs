//! The world: an engine, and everything around it that it cannot tell from the real thing.
//!
//! A step is one thing that happens (a child writes, a client reads, a timer of the engine fires), after which every queue
//! is carried as far as it goes at that instant; then the checkers look. Time passes only between steps. The world knows the
//! truth and writes it down in the oracle; the engine is told only what a shell could know.
//!
//! The simulated shell is in `world/shell.rs`, the processes behind it in `host.rs`, the people in front of it in `front.rs`;
//! HTTP exchanges are carried in `cable.rs`, let in or turned away in `origin.rs` and answered in `stream.rs`.

mod http;
mod clients;
mod host;
mod origin;
mod shell;
mod stream;

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::port::{Change, ExchangeId};
use mendline_core::{ClientId, Config, Input, LinkId, Moment, UpstreamConfig, UpstreamId};
use mendline_wire::Method;

pub use host::Host;

use crate::check::{self, Check, Violation};
use crate::child::Child;
use crate::client::{Client, Probe, ClientState, Workload};
use crate::clock::{Clock, Due};
use crate::coverage::Coverage;
use crate::rng::Rng;
use crate::exchange::Exchange;
use crate::fact::Fact;
use crate::journal::Journal;
use crate::machine::{self, EngineKind, Machine};
use crate::catalogue::CachedCatalogue;
use crate::oracle::{Key, Oracle, Terms};
use crate::server::{Era, Server};
use crate::site::{Origin, HttpServerKind};

/// How many steps a world may take: far more than any needs, and an end to one that does not come to rest.
const STEPS: u64 = 2_000_000;
/// How many times the engine may want to be woken at one instant before that is a busy loop.
const WAKES: u32 = 64;

/// A whole world.
pub struct World {
    /// The time, and what is due.
    pub clock: Clock,
    /// What really happened.
    pub oracle: Oracle,
    /// Each upstream's machine room.
    pub hosts: Vec<Host>,
    /// The clients, by their place.
    pub clients: Vec<Client>,
    /// The processes that the engine asked for and has not been told the end of.
    pub children: BTreeMap<LinkId, Child>,
    /// What is behind each upstream's URL, if it has one.
    pub origins: Vec<Origin>,
    /// The exchanges that the engine asked for and has not been told the end of.
    pub exchanges: BTreeMap<ExchangeId, Exchange>,
    /// What was seen of faults and states.
    pub coverage: Coverage,
    /// What happened, for people and for comparison.
    pub journal: Journal,
    /// What is told to people who read a scenario.
    pub scenario_log: Option<crate::scenario::ScenarioLog>,
    /// The faults of the plan: what, where, when.
    pub faults: Vec<crate::fault::Planned>,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
    /// The engine said that it is finished.
    pub finished: Option<Moment>,
    /// All faults are over.
    pub healed: bool,
    /// How long the machine slept in all: the engine's clock is ahead of the world's by this.
    slept: Duration,
    machine: Box<dyn Machine>,
    /// What the engine was told about its upstreams before anybody edited it.
    configured: Vec<UpstreamConfig>,
    checks: Vec<Box<dyn Check>>,
    wakes: (Moment, u32),
    steps: u64,
    pids: u32,
    /// Something was said to have happened in this step.
    has_emitted: bool,
    /// Dice for what happens between the parts.
    pub rng: Rng,
}

impl World {
    /// A world without anybody in it.
    pub fn new(engine_kind: EngineKind, config: &Config, seed: u64, hosts: Vec<Host>, journal: Journal) -> World {
        let mut oracle = Oracle::new(config.upstreams.iter().map(Terms::new).collect());
        // What is answered from memory is what was said before, and so all of that is noted.
        let is_noted = |upstream: &mendline_core::UpstreamConfig| {
            upstream.catalogue.cache || upstream.catalogue.startup == mendline_core::config::Startup::AtOnce
        };
        let noted = config.upstreams.iter().enumerate().filter(|(_, upstream)| is_noted(upstream));
        oracle.bodies_by_upstream = noted.map(|(place, _)| (place, Vec::new())).collect();
        World {
            clock: Clock::default(),
            oracle,
            origins: hosts.iter().map(|_| Origin::default()).collect(),
            exchanges: BTreeMap::new(),
            hosts,
            clients: Vec::new(),
            children: BTreeMap::new(),
            coverage: Coverage::default(),
            journal,
            scenario_log: None,
            faults: Vec::new(),
            violation: None,
            finished: None,
            healed: false,
            slept: Duration::ZERO,
            machine: machine::build(engine_kind, config, seed),
            configured: config.upstreams.clone(),
            checks: check::all(config),
            wakes: (Moment::ZERO, 0),
            steps: 0,
            pids: 100,
            has_emitted: false,
            rng: Rng::new(seed).fork(77),
        }
    }

    /// The engine remembers this of an upstream.
    pub fn preload_catalogue(&mut self, upstream: usize, catalogue: &CachedCatalogue) {
        let bodies = self.oracle.bodies_by_upstream.entry(upstream).or_default();
        bodies.extend(catalogue.answers().into_iter().map(|(_, body)| body));
        self.oracle.cached.insert(upstream);
        self.record(&Fact::NewEdition(upstream));
        self.send_input(Input::Remembered { upstream: UpstreamId(upstream as u16), what: catalogue.to_core() });
    }

    /// Lets a client in.
    pub fn connect_client(&mut self, client: Client) {
        let (id, upstream) = (client.id, UpstreamId(client.upstream as u16));
        self.oracle.readers.entry(id).or_default();
        self.record(&Fact::ClientConnected(client.upstream));
        self.clients.push(client);
        self.send_input(Input::ClientOpened { client: id, upstream });
    }

    /// Lives until a moment, or until something is broken, or until nothing is due before it.
    pub fn run_until(&mut self, end: Moment) {
        self.settle_and_check();
        while self.violation.is_none() && self.step(end) {}
        self.clock.advance(end);
    }

    /// Lives for a while.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.clock.now() + time);
    }

    /// One step, unless nothing is due by then.
    pub fn step(&mut self, end: Moment) -> bool {
        let wake = self.wakes_at();
        let due = self.clock.next();
        let Some(next) = [wake, due].into_iter().flatten().min().filter(|next| *next <= end) else { return false };
        self.steps += 1;
        if self.steps > STEPS {
            self.record(&Fact::ContractBroken("the world does not come to rest"));
            return false;
        }
        if wake.is_some_and(|wake| wake <= next) {
            self.wake(next);
        } else if let Some(due) = self.clock.take() {
            // Something else happened, so a wake-up after it is not the same one again.
            self.wakes.1 = 0;
            self.dispatch(due);
        }
        self.settle();
        self.check();
        true
    }

    /// Carries everything as far as it goes and lets the checkers look: for things done to the world from outside.
    pub fn settle_and_check(&mut self) {
        self.settle();
        self.check();
    }

    /// Tells the checkers.
    pub fn record(&mut self, fact: &Fact<'_>) {
        let now = self.clock.now();
        self.journal.record(now, fact, &self.oracle);
        self.coverage.record(fact);
        if let Some(log) = &mut self.scenario_log {
            log.record(fact, &self.oracle);
        }
        if self.violation.is_some() {
            return;
        }
        for check in &mut self.checks {
            if let Err(text) = check.see(fact, now, &self.oracle) {
                self.violation = Some(Violation { invariant: check.name(), at: now, text });
                return;
            }
        }
    }

    /// Asks the checkers for their last word.
    pub fn close(&mut self) {
        if self.violation.is_some() {
            return;
        }
        let now = self.clock.now();
        for check in &mut self.checks {
            if let Err(text) = check.end(now, &self.oracle) {
                self.violation = Some(Violation { invariant: check.name(), at: now, text });
                return;
            }
        }
    }

    /// The client with this name.
    pub fn client(&self, id: ClientId) -> Option<usize> {
        self.clients.iter().position(|client| client.id == id)
    }

    /// The engine is told to stop.
    pub fn stop(&mut self) {
        self.record(&Fact::Stopped);
        self.send_input(Input::Stop);
        self.settle_and_check();
    }

    /// Someone asks for a new connection by hand.
    pub fn reconnect(&mut self, upstream: usize) {
        self.record(&Fact::ManualAction(upstream));
        self.send_input(Input::Reconnect { upstream: UpstreamId(upstream as u16) });
        self.settle_and_check();
    }

    /// Someone takes an upstream out by hand.
    pub fn isolate(&mut self, upstream: usize) {
        self.record(&Fact::Isolated(upstream));
        self.send_input(Input::Isolate { upstream: UpstreamId(upstream as u16) });
        self.settle_and_check();
    }

    /// Someone brings it back.
    pub fn end_isolation(&mut self, upstream: usize) {
        self.record(&Fact::ManualAction(upstream));
        self.send_input(Input::Resume { upstream: UpstreamId(upstream as u16) });
        self.settle_and_check();
    }

    /// Somebody edits the configuration: from now on it is what was planned with these changes, and the way to the server
    /// may be another one.
    pub fn reconfigure(&mut self, upstream: usize, change: Change, edit: impl FnOnce(&mut UpstreamConfig)) {
        let mut config = Box::new(self.configured[upstream].clone());
        edit(&mut config);
        // What has come is under the old terms, and what comes from now on is under these.
        self.oracle.terms[upstream] = Terms::new(&config);
        self.send_input(Input::Reconfigure { upstream: UpstreamId(upstream as u16), config, change });
        self.settle_and_check();
    }

    /// The machine sleeps for a while: no time passes for anybody, but when it wakes up it is later, and what was connected to
    /// this upstream is dead.
    pub fn suspend(&mut self, upstream: usize, time: Duration) {
        self.silence(upstream);
        // Whoever must not notice anything must not miss a deadline for it.
        let time = if self.hosts.len() == 1 { time } else { Duration::ZERO };
        self.slept += time;
        self.oracle.advance_open_requests(time);
        self.record(&Fact::ConnectivityChanged(time));
        self.send_input(Input::Woke);
        self.settle_and_check();
    }

    /// The machine is in another network, and the shell has noticed.
    pub fn report_network_change(&mut self) {
        self.record(&Fact::ConnectivityChanged(Duration::ZERO));
        self.send_input(Input::NetworkChanged);
        self.settle_and_check();
    }

    /// How many upstreams may be harmed: in worlds with several the last one is left alone.
    pub fn harmed(&self) -> usize {
        self.hosts.len().saturating_sub(1).max(1)
    }

    /// Another client comes to an upstream, and counts its requests from one as the first did.
    pub fn connect_another_client(&mut self, upstream: usize) {
        let id = ClientId(1_000 + self.clients.len() as u32);
        let era = self.hosts[upstream].era;
        let workload = Workload { left: 20, pace: (0, 200), unsafes: 50, lists_first: true, ..Workload::none(era) };
        let rng = self.rng.fork(u64::from(id.0));
        self.connect_client(Client::new(id, upstream, era, workload, 65_536, false, rng));
        self.clock.after(Duration::from_millis(1), Due::ClientActs(id));
    }

    /// What each client relies on, and what its server knows of it: for when everything has healed.
    pub fn compare_state(&mut self) {
        for place in 0..self.clients.len() {
            let Client { id, upstream, state, .. } = self.clients[place];
            if state != ClientState::Ready || self.clients[place].probe != Probe::Done {
                continue;
            }
            let expected = self.clients[place].expected.clone();
            let state = self.server_of(upstream).map(|server| (server.state.clone(), server.edition()));
            let unserved = self.unserved(upstream, id);
            let (state, edition) = state.map_or((None, 0), |(state, edition)| (Some(state), edition));
            let state = state.as_ref();
            self.record(&Fact::StateCompared { client: id, expected: &expected, state, edition, unserved });
        }
    }

    /// The server that a legacy client talks to now, if it is one that keeps something in mind.
    fn server_of(&self, upstream: usize) -> Option<&Server> {
        let host = &self.hosts[upstream];
        match host.site.as_ref().map(|site| site.kind) {
            _ if host.era == Era::Modern => None,
            None => Some(&self.children.get(self.living(upstream).last()?)?.server),
            Some(HttpServerKind::Stateful | HttpServerKind::Sse) => {
                let conversations = self.origins[upstream].conversations.values().rev();
                conversations.filter(|conversation| conversation.known && conversation.used).map(|conversation| &conversation.server).next()
            }
            Some(HttpServerKind::Stateless | HttpServerKind::Modern) => None,
        }
    }

    /// An open subscription of a client that no server serves.
    fn unserved(&self, upstream: usize, client: ClientId) -> Option<Key> {
        let is_served = |key: Key| match &self.hosts[upstream].site {
            None => {
                let mut living = self.living(upstream).into_iter().filter_map(|link| self.children.get(&link));
                living.any(|child| child.server.listens_to(key).next().is_some())
            }
            Some(_) => self.origins[upstream].conversations.values().any(|conversation| {
                let streams = conversation.server.listens_to(key).filter_map(|stream| conversation.streams.get(&stream));
                let mut exchanges = streams.filter_map(|stream| self.exchanges.get(&stream.listener?));
                exchanges.any(|exchange| !exchange.stalled && !exchange.is_closed())
            }),
        };
        let open = self.oracle.unanswered().filter(|(_, record)| record.client == client);
        let listens = open.filter(|(_, record)| record.method == Method::SubscriptionsListen && !record.twin);
        listens.map(|(key, _)| key).find(|key| !is_served(*key))
    }

    /// When the engine wants to be woken, by the world's clock.
    fn wakes_at(&mut self) -> Option<Moment> {
        let wake = self.machine.poll_timeout()?;
        let slept = self.slept.as_nanos() as u64;
        Some(Moment(wake.0.saturating_sub(slept)).max(self.clock.now()))
    }

    fn wake(&mut self, now: Moment) {
        self.clock.advance(now);
        let now = self.clock.now();
        let again = if self.wakes.0 == now { self.wakes.1 + 1 } else { 0 };
        self.wakes = (now, again);
        self.machine.handle_timeout(now + self.slept);
        if again > WAKES {
            self.record(&Fact::ContractBroken("the engine wants to be woken again and again at one instant"));
        }
    }

    fn dispatch(&mut self, due: Due) {
        match due {
            Due::SpawnEnds(link) => self.spawn_ends(link),
            Due::ChildReads(link) => self.child_reads(link),
            Due::JobContinues(link, job) => self.job_continues(link, job),
            Due::OutputArrives(_) | Due::PartArrives(_) | Due::Pause(_) => {}
            Due::ChildEnds(link, ending) => self.child_ends(link, ending),
            Due::Reap(link) => self.reap(link),
            Due::ConnectEnds(exchange) => self.connect_ends(exchange),
            Due::RequestBytesAccepted(exchange) => self.accept_request_bytes(exchange),
            Due::RequestArrives(upstream, number) => self.request_arrives(upstream, number),
            Due::DeadConnectionFound(exchange) => self.dead_connection_found(exchange),
            Due::ConversationContinues(upstream, conversation, job) => self.conversation_continues(upstream, conversation, job),
            Due::ClientActs(id) => self.client_acts(id),
            Due::ClientReads(id) => self.client_reads(id),
            Due::ClientReplies(id, question) => self.client_replies(id, question),
            Due::FaultBegins(place) => crate::fault::begin(self, place),
            Due::FaultRepeats(place) => crate::fault::repeat(self, place),
            Due::FaultEnds(place) => crate::fault::end(self, place),
            Due::AnswerDue(key) => self.answer_due(key),
            Due::RecoveryEnds(key) => self.recovery_ends(key),
        }
    }

    /// Does nothing hold calls to this upstream back, by what the engine says?
    pub fn flows(&self, upstream: usize) -> bool {
        self.machine.upstream_state(upstream).flows
    }

    /// Where the engine says that the link of an upstream stands.
    pub fn link(&self, upstream: usize) -> &'static str {
        self.machine.upstream_state(upstream).own_link
    }

    fn check(&mut self) {
        let wake = self.wakes_at();
        let load = self.machine.load();
        self.record(&Fact::Settled { wake, load });
        // Between two events the fold stands still, so it is compared only when there was one.
        if !std::mem::take(&mut self.has_emitted) {
            return;
        }
        for upstream in 0..self.hosts.len() {
            let state = self.machine.upstream_state(upstream);
            self.record(&Fact::UpstreamState { upstream, state: &state });
        }
    }

    fn send_input(&mut self, input: Input) {
        // A shell that was told that everything is finished has nothing more to report.
        if self.finished.is_none() {
            let now = self.clock.now();
            self.machine.handle(input, now + self.slept);
        }
    }
}
