//! The simulated world: an engine and its environment.
//!
//! A step is one event (a child writes, a client reads, a timer of the engine fires). After it, every queue is
//! processed as far as possible at that time, and the checks run. Time passes only between steps. The world records the
//! truth in the oracle; the engine receives only what a shell could know.
//!
//! The simulated shell is in `world/shell.rs`, the processes are in `host.rs`, the clients in `clients.rs`. HTTP
//! exchanges are carried in `http.rs`, admitted or rejected in `origin.rs` and answered in `stream.rs`.

mod clients;
mod credentials;
mod host;
mod http;
mod origin;
mod shell;
mod stream;

use std::collections::BTreeMap;
use std::time::Duration;

use mendline_core::port::{Change, ExchangeId};
use mendline_core::{ClientId, ClientStreams, Config, Input, LinkId, Moment, StreamId, UpstreamConfig, UpstreamId};
use mendline_wire::Method;

pub use host::Host;

use crate::catalogue::CachedCatalogue;
use crate::check::{self, Check, Violation};
use crate::child::Child;
use crate::client::{Client, ClientState, Probe, Workload};
use crate::clock::{Clock, Due};
use crate::coverage::Coverage;
use crate::exchange::Exchange;
use crate::fact::Fact;
use crate::journal::Journal;
use crate::machine::{self, EngineKind, Machine};
use crate::oracle::{Key, Oracle, Record, Terms};
use crate::plan::Guest;
use crate::rng::Rng;
use crate::server::{Era, Server};
use crate::site::{HttpServerKind, Origin};

/// Maximum number of steps; a world that needs more does not terminate.
const STEPS: u64 = 2_000_000;
/// Maximum number of wake-ups at one time; more are a busy loop.
const WAKES: u32 = 64;

/// A simulated world.
pub struct World {
    /// The clock and its agenda.
    pub clock: Clock,
    /// The oracle.
    pub oracle: Oracle,
    /// The host of each upstream.
    pub hosts: Vec<Host>,
    /// The clients.
    pub clients: Vec<Client>,
    /// Further clients that connect later.
    pub guests: Vec<Guest>,
    /// The processes whose end the engine does not know yet.
    pub children: BTreeMap<LinkId, Child>,
    /// The HTTP server of each upstream.
    pub origins: Vec<Origin>,
    /// The exchanges whose end the engine does not know yet.
    pub exchanges: BTreeMap<ExchangeId, Exchange>,
    /// The coverage.
    pub coverage: Coverage,
    /// The journal.
    pub journal: Journal,
    /// The output of a scenario.
    pub scenario_log: Option<crate::scenario::ScenarioLog>,
    /// The scheduled faults.
    pub faults: Vec<crate::fault::Planned>,
    /// The first broken invariant.
    pub violation: Option<Violation>,
    /// The time at which the engine finished.
    pub finished: Option<Moment>,
    /// All faults are over.
    pub healed: bool,
    /// Total suspended time: the clock of the engine is ahead of the clock of the world by this.
    slept: Duration,
    machine: Box<dyn Machine>,
    /// The original configuration of the upstreams.
    configured: Vec<UpstreamConfig>,
    checks: Vec<Box<dyn Check>>,
    wakes: (Moment, u32),
    steps: u64,
    pids: u32,
    /// The engine emitted an event in this step.
    has_emitted: bool,
    /// Random number generator for everything between the parts.
    pub rng: Rng,
}

impl World {
    /// Creates a world without clients.
    pub fn new(engine_kind: EngineKind, config: &Config, seed: u64, hosts: Vec<Host>, journal: Journal) -> World {
        let mut oracle = Oracle::new(config.upstreams.iter().map(Terms::new).collect());
        // Cached answers repeat earlier bodies, so all bodies are recorded.
        let is_noted = |upstream: &mendline_core::UpstreamConfig| {
            upstream.catalogue.cache || upstream.catalogue.startup == mendline_core::config::Startup::Immediate
        };
        let noted = config.upstreams.iter().enumerate().filter(|(_, upstream)| is_noted(upstream));
        oracle.bodies_by_upstream = noted.map(|(index, _)| (index, Vec::new())).collect();
        World {
            clock: Clock::default(),
            oracle,
            origins: hosts.iter().map(|_| Origin::default()).collect(),
            exchanges: BTreeMap::new(),
            hosts,
            clients: Vec::new(),
            guests: Vec::new(),
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

    /// Loads a cached catalogue into the engine.
    pub fn preload_catalogue(&mut self, upstream: usize, catalogue: &CachedCatalogue) {
        let bodies = self.oracle.bodies_by_upstream.entry(upstream).or_default();
        bodies.extend(catalogue.answers().into_iter().map(|(_, body)| body));
        self.oracle.cached.insert(upstream);
        self.record(&Fact::NewEdition(upstream));
        self.send_input(Input::Cached { upstream: UpstreamId(upstream as u16), what: catalogue.to_core() });
    }

    /// Connects a client.
    pub fn connect_client(&mut self, client: Client) {
        let (id, upstream) = (client.id, UpstreamId(client.upstream as u16));
        self.oracle.readers.entry(id).or_default().has_streams = client.streams.is_some();
        self.record(&Fact::ClientConnected(client.upstream));
        let has_many = client.streams.is_some();
        self.clients.push(client);
        let streams = if has_many { ClientStreams::Many { resumed: None } } else { ClientStreams::One };
        self.send_input(Input::ClientOpened { client: id, upstream, streams });
        if has_many {
            self.send_input(Input::StreamAttached { client: id, stream: StreamId::COMMON });
        }
    }

    /// Runs until a time, until an invariant is broken, or until nothing is scheduled before it.
    pub fn run_until(&mut self, end: Moment) {
        self.settle_and_check();
        while self.violation.is_none() && self.step(end) {}
        self.clock.advance(end);
    }

    /// Runs for a duration.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.clock.now() + time);
    }

    /// Runs one step, unless nothing is scheduled by then.
    pub fn step(&mut self, end: Moment) -> bool {
        let wake = self.wakes_at();
        let due = self.clock.next();
        let Some(next) = [wake, due].into_iter().flatten().min().filter(|next| *next <= end) else { return false };
        self.steps += 1;
        if self.steps > STEPS {
            self.record(&Fact::ContractBroken("the world does not settle"));
            return false;
        }
        if wake.is_some_and(|wake| wake <= next) {
            self.wake(next);
        } else if let Some(due) = self.clock.take() {
            // After another event, a wake-up is not a repetition.
            self.wakes.1 = 0;
            self.dispatch(due);
        }
        self.settle();
        self.check();
        true
    }

    /// Settles all queues and runs the checks, after a change from outside.
    pub fn settle_and_check(&mut self) {
        self.settle();
        self.check();
    }

    /// Reports a fact to the checks.
    pub fn record(&mut self, fact: &Fact<'_>) {
        let now = self.clock.now();
        self.journal.record(now, fact, &self.oracle);
        self.coverage.record(fact);
        if let Some(log) = &mut self.scenario_log {
            log.record(fact, now, &self.oracle);
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

    /// Runs the final checks.
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

    /// Returns the index of a client.
    pub fn client(&self, id: ClientId) -> Option<usize> {
        self.clients.iter().position(|client| client.id == id)
    }

    /// Tells the engine to stop.
    pub fn stop(&mut self) {
        self.record(&Fact::Stopped);
        self.reattach_all_streams();
        self.send_input(Input::Stop);
        self.settle_and_check();
    }

    /// Reconnects an upstream, as the operator does.
    pub fn reconnect(&mut self, upstream: usize) {
        self.record(&Fact::ManualAction(upstream));
        self.send_input(Input::Reconnect { upstream: UpstreamId(upstream as u16) });
        self.settle_and_check();
    }

    /// Isolates an upstream, as the operator does.
    pub fn isolate(&mut self, upstream: usize) {
        self.record(&Fact::Isolated(upstream));
        self.send_input(Input::Isolate { upstream: UpstreamId(upstream as u16) });
        self.settle_and_check();
    }

    /// Ends the isolation of an upstream, as the operator does.
    pub fn end_isolation(&mut self, upstream: usize) {
        self.record(&Fact::ManualAction(upstream));
        self.send_input(Input::Resume { upstream: UpstreamId(upstream as u16) });
        self.settle_and_check();
    }

    /// Changes the configuration: the planned one with this edit applies from now on.
    pub fn reconfigure(&mut self, upstream: usize, change: Change, edit: impl FnOnce(&mut UpstreamConfig)) {
        let mut config = Box::new(self.configured[upstream].clone());
        edit(&mut config);
        // Earlier requests keep the old limits; later ones have the new limits.
        self.oracle.terms[upstream] = Terms::new(&config);
        self.send_input(Input::Reconfigure { upstream: UpstreamId(upstream as u16), config, change });
        self.settle_and_check();
    }

    /// Suspends the machine. The clock of the engine advances and every connection to this upstream is dead.
    pub fn suspend(&mut self, upstream: usize, time: Duration) {
        self.silence(upstream);
        // An upstream without faults must not miss a deadline because of this.
        let time = if self.hosts.len() == 1 { time } else { Duration::ZERO };
        self.slept += time;
        self.oracle.advance_open_requests(time);
        self.record(&Fact::ConnectivityChanged(time));
        self.send_input(Input::SystemResumed);
        self.settle_and_check();
    }

    /// Reports a change of the network.
    pub fn report_network_change(&mut self) {
        self.record(&Fact::ConnectivityChanged(Duration::ZERO));
        self.send_input(Input::NetworkChanged);
        self.settle_and_check();
    }

    /// Returns the number of upstreams that may have faults; with several upstreams the last one has none.
    pub fn faulty_upstreams(&self) -> usize {
        self.hosts.len().saturating_sub(1).max(1)
    }

    /// Connects another client with the same ids as the first.
    pub fn connect_another_client(&mut self, upstream: usize) {
        let id = ClientId(1_000 + self.clients.len() as u32);
        let era = self.hosts[upstream].era;
        let workload = Workload { left: 20, pace: (0, 200), unsafes: 50, lists_first: true, ..Workload::none(era) };
        let rng = self.rng.fork(u64::from(id.0));
        self.connect_client(Client::new(id, upstream, era, workload, 65_536, false, rng));
        self.clock.after(Duration::from_millis(1), Due::ClientActs(id));
    }

    /// Returns whether several clients use this upstream.
    pub fn is_shared(&self, upstream: usize) -> bool {
        self.clients.iter().filter(|client| client.upstream == upstream).count() > 1
    }

    /// Connects a further client, and plans its leave.
    fn guest_connects(&mut self, index: usize) {
        let guest = self.guests[index].clone();
        if self.finished.is_some() || self.healed {
            return;
        }
        let id = ClientId(2_000 + index as u32);
        let rng = self.rng.fork(u64::from(id.0));
        self.connect_client(Client::new(
            id,
            guest.upstream,
            self.hosts[guest.upstream].era,
            guest.workload,
            65_536,
            false,
            rng,
        ));
        self.clock.after(Duration::from_millis(1), Due::ClientActs(id));
        if let Some(stays) = guest.stays {
            self.clock.after(stays, Due::ClientLeaves(id));
        }
    }

    /// Compares the state that each client relies on with the state of its server, after all faults.
    /// `reads_lists` returns whether the engine reads the lists of an upstream again on its own.
    pub fn compare_state(&mut self, reads_lists: impl Fn(&World, usize) -> bool) {
        for index in 0..self.clients.len() {
            let Client { id, upstream, state, .. } = self.clients[index];
            if state != ClientState::Ready || self.clients[index].probe != Probe::Done {
                continue;
            }
            let mut expected = self.clients[index].expected.clone();
            if !reads_lists(self, upstream) {
                expected.lists.clear();
            }
            let state = self.server_of(upstream).map(|server| (server.state.clone(), server.edition()));
            let unserved = self.unserved(upstream, id);
            let (state, edition) = state.map_or((None, 0), |(state, edition)| (Some(state), edition));
            let state = state.as_ref();
            let is_other = |client: &&Client| client.upstream == upstream && client.id != id;
            let others: Vec<_> = self.clients.iter().filter(is_other).map(|client| client.expected.clone()).collect();
            let (expected, others) = (&expected, &others[..]);
            self.record(&Fact::StateCompared { client: id, expected, others, state, edition, unserved });
        }
    }

    /// Returns the current server of a legacy client, if it keeps session state.
    fn server_of(&self, upstream: usize) -> Option<&Server> {
        let host = &self.hosts[upstream];
        match host.site.as_ref().map(|site| site.kind) {
            _ if host.era == Era::Modern => None,
            None => Some(&self.children.get(self.living(upstream).last()?)?.server),
            Some(HttpServerKind::Stateful | HttpServerKind::Sse) => {
                let conversations = self.origins[upstream].conversations.values().rev();
                conversations
                    .filter(|conversation| conversation.known && conversation.used)
                    .map(|conversation| &conversation.server)
                    .next()
            }
            Some(HttpServerKind::Stateless | HttpServerKind::Modern) => None,
        }
    }

    /// Returns an open subscription of a client that no server serves.
    fn unserved(&self, upstream: usize, client: ClientId) -> Option<Key> {
        let is_served = |key: Key| match &self.hosts[upstream].site {
            None => {
                let mut living = self.living(upstream).into_iter().filter_map(|link| self.children.get(&link));
                living.any(|child| child.server.listens_to(key).next().is_some())
            }
            Some(_) => self.origins[upstream].conversations.values().any(|conversation| {
                let streams =
                    conversation.server.listens_to(key).filter_map(|stream| conversation.streams.get(&stream));
                let mut exchanges = streams.filter_map(|stream| self.exchanges.get(&stream.listener?));
                exchanges.any(|exchange| !exchange.stalled && !exchange.is_closed())
            }),
        };
        let open = self.oracle.unanswered().filter(|(_, record)| record.client == client);
        let listens = open.filter(|(_, record)| record.method == Method::SubscriptionsListen && !record.twin);
        // A new subscription may wait for the rate limit, like every call.
        let waits = |record: &Record| {
            let until = record.arrived.zip(record.terms).map(|(arrived, terms)| arrived + terms.recovery);
            record.whole == 0 && until.is_some_and(|until| self.clock.now() < until)
        };
        let listens = listens.filter(|(_, record)| !waits(record));
        listens.map(|(key, _)| key).find(|key| !is_served(*key))
    }

    /// Returns the wake-up time of the engine, by the clock of the world.
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
            self.record(&Fact::ContractBroken("the engine requests too many wake-ups at one time"));
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
            Due::GuestConnects(index) => self.guest_connects(index),
            Due::ClientLeaves(client) => {
                if let Some(index) = self.client(client) {
                    self.client_disconnects(index);
                }
            }
            Due::CommentSent(exchange) => self.send_comment(exchange),
            Due::ConnectEnds(exchange) => self.connect_ends(exchange),
            Due::RequestBytesAccepted(exchange) => self.accept_request_bytes(exchange),
            Due::CredentialRead(upstream) => self.credential_read(upstream),
            Due::RequestArrives(upstream, number) => self.request_arrives(upstream, number),
            Due::DeadConnectionFound(exchange) => self.dead_connection_found(exchange),
            Due::ConversationContinues(upstream, conversation, job) => {
                self.conversation_continues(upstream, conversation, job);
            }
            Due::ClientActs(id) => self.client_acts(id),
            Due::ClientReads(id) => self.client_reads(id),
            Due::ClientReplies(id, question) => self.client_replies(id, question),
            Due::FaultBegins(index) => crate::fault::begin(self, index),
            Due::FaultRepeats(index) => crate::fault::repeat(self, index),
            Due::FaultEnds(index) => crate::fault::end(self, index),
            Due::StreamReattaches(client) => self.stream_reattaches(client),
            Due::AnswerDue(key) => self.answer_due(key),
            Due::RecoveryEnds(key) => self.recovery_ends(key),
        }
    }

    /// Returns whether neither a breaker nor a pause holds calls back, by the engine.
    pub fn flows(&self, upstream: usize) -> bool {
        self.machine.upstream_state(upstream).flows
    }

    /// Returns the link state of an upstream, by the engine.
    pub fn link(&self, upstream: usize) -> &'static str {
        self.machine.upstream_state(upstream).own_link
    }

    fn check(&mut self) {
        let wake = self.wakes_at();
        let load = self.machine.load();
        self.record(&Fact::Settled { wake, load });
        // The state changes only with an event, so it is compared only after one.
        if !std::mem::take(&mut self.has_emitted) {
            return;
        }
        for upstream in 0..self.hosts.len() {
            let state = self.machine.upstream_state(upstream);
            self.record(&Fact::UpstreamState { upstream, state: &state });
        }
    }

    fn send_input(&mut self, input: Input) {
        // A shell that knows that the engine is finished reports nothing more.
        if self.finished.is_none() {
            let now = self.clock.now();
            self.machine.handle(input, now + self.slept);
        }
    }
}
