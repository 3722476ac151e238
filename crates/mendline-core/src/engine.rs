//! The engine that a shell drives: one per process, one thread, no I/O.
//!
//! Its methods, by purpose:
//! - **inputs**: [`Engine::handle`] for every fact, [`Engine::handle_timeout`] when the time of
//!   [`Engine::poll_timeout`] has come;
//! - **outputs**: [`Engine::poll_output`] until it is empty, [`Engine::poll_write`] for each port that can take bytes,
//!   [`Engine::may_read`] before reading from one, [`Engine::poll_timeout`] before sleeping;
//! - **inspection**: the getters, for tests and status.
//!
//! A client session and an upstream never call each other. Each puts commands into the dispatch queues, and the engine
//! dispatches them until the queues are empty.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mendline_wire::Spliced;

use crate::client::ClientSession;
use crate::config::{Config, Lifetime};
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::dispatch::{Dispatch, UpstreamCommand};
use crate::event::{CredentialState, Event, LinkState};
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::policy::breaker::BreakerState;
use crate::policy::tool_filter::ToolFilter;
use crate::port::{ClientId, ClientStreams, Ending, Input, Output, Port, StreamId, StreamMessage, UpstreamId};
use crate::quote::{Quote, Unredacted};
use crate::reason::ConnectivityChange;
use crate::rng::SeededRng;
use crate::status::Status;
use crate::timers::Timers;
use crate::upstream::Upstream;

/// The phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Running calls are being finished.
    Draining,
    /// Everything is answered; children are ending.
    Closing,
    /// Children are gone.
    Finished,
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    clients: BTreeMap<ClientId, ClientSession>,
    upstreams: Vec<Upstream>,
    lifetime: Lifetime,
    phase: Phase,
    /// A client has ended or was lost, so a shutdown may be due.
    client_gone: bool,
    now: Moment,
    timers: Timers<Alarm>,
    ledger: Ledger,
    rng: SeededRng,
    outputs: VecDeque<Output>,
    dispatch: Dispatch,
    quote: Arc<dyn Quote>,
    /// The status of all upstreams, if a client has Mendline's own tool.
    own_status: Option<Box<Status>>,
}

macro_rules! cx {
    ($engine:ident) => {
        &mut Cx {
            now: $engine.now,
            timers: &mut $engine.timers,
            ledger: &mut $engine.ledger,
            rng: &mut $engine.rng,
            outputs: &mut $engine.outputs,
            dispatch: &mut $engine.dispatch,
            quote: &*$engine.quote,
        }
    };
}

impl Engine {
    /// Creates an engine for these upstreams. Its randomness comes from `seed` alone.
    pub fn new(config: Config, seed: u64) -> Self {
        let upstreams = config
            .upstreams
            .into_iter()
            .enumerate()
            .map(|(index, upstream)| Upstream::new(UpstreamId(index as u16), upstream))
            .collect();
        Engine {
            clients: BTreeMap::new(),
            upstreams,
            lifetime: config.lifetime,
            phase: Phase::Running,
            client_gone: false,
            now: Moment::ZERO,
            timers: Timers::default(),
            ledger: Ledger::new(config.ledger_bytes),
            rng: SeededRng::new(seed),
            outputs: VecDeque::new(),
            dispatch: Dispatch::default(),
            quote: Arc::new(Unredacted),
            own_status: None,
        }
    }

    /// Sets the function that quotes text of peers.
    pub fn quote_with(&mut self, quote: Arc<dyn Quote>) {
        self.quote = quote;
    }

    // ---- inputs ----

    /// Handles one input.
    pub fn handle(&mut self, input: Input, now: Moment) {
        self.now = self.now.max(now);
        match input {
            Input::Cached { upstream, what } => {
                self.with_upstream(upstream, |it, cx| it.handle_cached(what, cx));
            }
            Input::ClientOpened { client, upstream, streams } => self.open(client, upstream, streams),
            Input::FromClient { client, stream, received } => {
                self.with_client(client, |it, cx| it.handle_received(stream, received, cx));
            }
            Input::StreamAttached { client, stream } => {
                self.with_client(client, |it, cx| it.handle_attached(stream, cx));
            }
            Input::StreamDetached { client, stream } => self.with_client(client, |it, _| it.handle_detached(stream)),
            Input::StreamClosed { client, stream } => {
                self.with_client(client, |it, cx| it.handle_closed(stream, cx));
            }
            Input::ClientEnded { client } => self.client_ended(client),
            Input::ClientLost { client } => self.client_lost(client),
            Input::Spawned { link, pid } => self.with_upstream(link, |it, cx| it.handle_spawned(link, pid, cx)),
            Input::SpawnFailed { link, why } => {
                self.with_upstream(link, |it, cx| it.handle_spawn_failed(link, &why, cx));
            }
            Input::FromLink { link, received } => {
                self.with_upstream(link, |it, cx| it.handle_received(link, received, cx));
            }
            Input::Stderr { link, line } => self.with_upstream(link, |it, cx| it.handle_stderr(&line, cx)),
            Input::LinkBroken { link, pipe } => {
                self.with_upstream(link, |it, cx| it.handle_broken(link, pipe, cx));
            }
            Input::ChildExited { link, how, written } => {
                self.with_upstream(link, |it, cx| it.handle_exited(link, how, written, cx));
            }
            Input::Reached { exchange } => {
                self.with_upstream(exchange, |it, cx| it.handle_reached(exchange, cx));
            }
            Input::Head { exchange, head } => {
                self.with_upstream(exchange, |it, cx| it.handle_head(exchange, head, cx));
            }
            Input::ResponseBytes { exchange } => {
                self.with_upstream(exchange, |it, cx| it.handle_response_bytes(exchange, cx));
            }
            Input::StreamEvent { exchange, event } => {
                self.with_upstream(exchange, |it, cx| it.handle_event(exchange, event, cx));
            }
            Input::Body { exchange, received } => {
                self.with_upstream(exchange, |it, cx| it.handle_body(exchange, received, cx));
            }
            Input::End { exchange, how, written } => {
                self.with_upstream(exchange, |it, cx| it.handle_end(exchange, &how, written, cx));
            }
            Input::CredentialChanged { upstream, number } => {
                self.with_upstream(upstream, |it, cx| it.handle_credential_changed(number, cx));
            }
            Input::CredentialFailed { upstream, why } => {
                self.with_upstream(upstream, |it, cx| it.handle_credential_failed(why, cx));
            }
            Input::Reconnect { upstream } => self.with_upstream(upstream, Upstream::reconnect),
            Input::Isolate { upstream } => self.with_upstream(upstream, Upstream::isolate),
            Input::Resume { upstream } => self.with_upstream(upstream, Upstream::resume_manually),
            Input::Reconfigure { upstream, config, change } => {
                self.set_tool_filter(upstream, &config.tool_filter);
                self.with_upstream(upstream, |it, cx| it.reconfigure(*config, change, cx));
            }
            Input::SystemResumed => self.connectivity_changed(ConnectivityChange::SystemResumed),
            Input::NetworkChanged => self.connectivity_changed(ConnectivityChange::NetworkChanged),
            Input::Stop => self.stop(),
        }
        self.dispatch_all();
        self.advance();
    }

    fn client_ended(&mut self, client: ClientId) {
        self.client_gone = true;
        self.with_client(client, ClientSession::handle_ended);
    }

    fn client_lost(&mut self, client: ClientId) {
        self.client_gone = true;
        self.with_client(client, ClientSession::handle_lost);
        self.clients.remove(&client);
    }

    /// Lets running calls end; the second request ends them.
    fn stop(&mut self) {
        match self.phase {
            Phase::Running => {
                self.begin_drain();
                cx!(self).wake_in(defaults::DRAIN, Alarm::Drain);
            }
            Phase::Draining => self.close(),
            Phase::Closing | Phase::Finished => {}
        }
    }

    /// Fires the timers that are due.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.now = self.now.max(now);
        while let Some(alarm) = self.timers.take_due(self.now) {
            match alarm {
                Alarm::Call(upstream, key) => self.with_upstream(upstream, |it, cx| it.handle_time(key, cx)),
                Alarm::Link(upstream) => self.with_upstream(upstream, Upstream::handle_link_timer),
                Alarm::KeepAlive(upstream) => self.with_upstream(upstream, Upstream::handle_keep_alive),
                Alarm::Notices(upstream) => self.with_upstream(upstream, Upstream::handle_notices_timer),
                Alarm::Handshake(upstream) => self.with_upstream(upstream, Upstream::handle_handshake_timer),
                Alarm::Look(upstream) => self.with_upstream(upstream, Upstream::handle_look_timer),
                Alarm::OneWay(upstream) => self.with_upstream(upstream, Upstream::handle_one_way_timer),
                Alarm::Orphans(upstream) => self.with_upstream(upstream, Upstream::handle_orphans_timer),
                Alarm::Close(upstream) => self.with_upstream(upstream, Upstream::handle_close_timer),
                Alarm::Gate(upstream) => self.with_upstream(upstream, Upstream::handle_gate_timer),
                Alarm::Availability(upstream) => {
                    self.with_upstream(upstream, Upstream::handle_availability_timer);
                }
                Alarm::Silence(upstream) => self.with_upstream(upstream, Upstream::handle_silence_timer),
                Alarm::Lists(upstream) => self.with_upstream(upstream, Upstream::handle_lists_timer),
                Alarm::Hints(upstream) => self.with_upstream(upstream, Upstream::handle_hints_timer),
                Alarm::Cache(upstream) => self.with_upstream(upstream, Upstream::handle_cache_timer),
                Alarm::Drain => self.close(),
            }
            self.dispatch_all();
        }
        self.advance();
    }

    // ---- outputs ----

    /// Returns the next output for the shell.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if let (Some(status), Some(Output::Event(event))) = (&mut self.own_status, &output) {
            status.apply(event);
        }
        output
    }

    /// Returns the next message for a port that can take bytes at this time. The shell adds the newline.
    pub fn poll_write(&mut self, port: Port, now: Moment) -> Option<Spliced> {
        self.now = self.now.max(now);
        match port {
            Port::Client(client) => self.clients.get_mut(&client)?.pull(cx!(self)),
            Port::Link(link) => self.upstreams.get_mut(usize::from(link.upstream.0))?.pull(link, cx!(self)),
            Port::Stream(..) | Port::Exchange(_) => None,
        }
    }

    /// Returns the next message for one stream of a client that has many.
    pub fn poll_stream(&mut self, client: ClientId, stream: StreamId, now: Moment) -> Option<StreamMessage> {
        self.now = self.now.max(now);
        self.clients.get_mut(&client)?.pull_stream(stream, cx!(self))
    }

    /// Returns whether the shell may read from this port now. A client that does not read its answers is not read from,
    /// nor is a child that only this client uses.
    pub fn may_read(&self, port: Port) -> bool {
        match port {
            Port::Client(client) | Port::Stream(client, _) => {
                self.clients.get(&client).is_none_or(|session| !session.streams().is_stuck())
            }
            Port::Link(link) => self.takes_more(link.upstream),
            Port::Exchange(exchange) => self.takes_more(exchange.upstream()),
        }
    }

    /// Returns whether an upstream's only client keeps up with it.
    fn takes_more(&self, upstream: UpstreamId) -> bool {
        match self.upstreams.get(usize::from(upstream.0)).and_then(Upstream::only_client) {
            Some(only) => self.clients.get(&only).is_none_or(|session| !session.streams().is_behind()),
            _ => true,
        }
    }

    /// The bytes of unfinished responses that a shell may hold now: the memory budget less the bytes held here.
    pub fn read_budget(&self) -> usize {
        self.ledger.left()
    }

    /// The limit of calls in flight of an upstream, as it is configured now.
    pub fn in_flight_limit(&self, upstream: UpstreamId) -> usize {
        self.upstreams.get(usize::from(upstream.0)).map_or(0, Upstream::in_flight_limit)
    }

    /// Records the bytes of unfinished responses that the shell holds.
    pub fn note_buffered(&mut self, bytes: usize) {
        self.ledger.set_shell_bytes(bytes);
    }

    /// The time of the next [`Engine::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Moment> {
        self.timers.next()
    }

    // ---- inspection ----

    /// The state of an upstream's credential.
    pub fn credential_state(&self, upstream: UpstreamId) -> Option<CredentialState> {
        self.upstreams.get(usize::from(upstream.0)).map(Upstream::credential_state)
    }

    /// The state of an upstream's link.
    pub fn link_state(&self, upstream: UpstreamId) -> Option<LinkState> {
        self.upstreams.get(usize::from(upstream.0)).map(|upstream| upstream.link().state())
    }

    /// The state of an upstream's breaker.
    pub fn breaker(&self, upstream: UpstreamId) -> Option<BreakerState> {
        self.upstreams.get(usize::from(upstream.0)).map(Upstream::breaker)
    }

    /// Calls of an upstream that are accepted and not answered.
    pub fn open_calls(&self, upstream: UpstreamId) -> usize {
        self.upstreams.get(usize::from(upstream.0)).map_or(0, Upstream::open_calls)
    }

    /// Of these, the calls that are sent.
    pub fn calls_out(&self, upstream: UpstreamId) -> usize {
        self.upstreams.get(usize::from(upstream.0)).map_or(0, Upstream::calls_out)
    }

    /// Of these, the calls that were reported as silent.
    pub fn silent_calls(&self, upstream: UpstreamId) -> usize {
        self.upstreams.get(usize::from(upstream.0)).map_or(0, Upstream::silent_calls)
    }

    /// The sizes of all queues, for tests of their bounds.
    pub fn load(&self) -> Load {
        Load {
            requests: self.clients.values().map(ClientSession::open).sum(),
            server_requests: self.clients.values().map(ClientSession::server_requests).sum(),
            for_clients: self.clients.values().map(|session| session.streams().len()).sum(),
            calls: self.upstreams.iter().map(Upstream::held_calls).sum(),
            for_links: self.upstreams.iter().map(Upstream::queued).sum(),
            timers: self.timers.len(),
            bytes: self.ledger.held(),
        }
    }

    // ---- internals ----

    fn open(&mut self, client: ClientId, upstream: UpstreamId, streams: ClientStreams) {
        let cx = cx!(self);
        cx.emit(Event::ClientOpened { client, upstream });
        let is_resumed = matches!(streams, ClientStreams::Many { resumed: Some(_) });
        cx.send_to_upstream(upstream, UpstreamCommand::Open { client, is_resumed });
        let own_tools = self.upstreams.get(usize::from(upstream.0)).is_some_and(Upstream::has_own_tools);
        if own_tools {
            self.own_status.get_or_insert_default();
        }
        let mut session = ClientSession::new(client, upstream, &streams).with_own_tools(own_tools);
        if let Some(upstream) = self.upstreams.get(usize::from(upstream.0)) {
            session.set_tool_filter(upstream.tool_filter().clone());
        }
        if let ClientStreams::Many { resumed: Some(initialize) } = streams {
            session.resume(initialize, cx!(self));
        }
        self.clients.insert(client, session);
    }

    /// Applies a new list of allowed tools to the clients of a server.
    fn set_tool_filter(&mut self, upstream: UpstreamId, filter: &ToolFilter) {
        for session in self.clients.values_mut().filter(|session| session.upstream() == upstream) {
            session.set_tool_filter(filter.clone());
        }
    }

    fn with_client(&mut self, client: ClientId, does: impl FnOnce(&mut ClientSession, &mut Cx<'_>)) {
        if let Some(session) = self.clients.get_mut(&client) {
            does(session, cx!(self));
        }
    }

    fn with_upstream(&mut self, id: impl Into<UpstreamId>, does: impl FnOnce(&mut Upstream, &mut Cx<'_>)) {
        if let Some(upstream) = self.upstreams.get_mut(usize::from(id.into().0)) {
            does(upstream, cx!(self));
            upstream.reconcile(cx!(self));
        }
    }

    /// Connections may be lost, and unreachable servers may be reachable.
    fn connectivity_changed(&mut self, change: ConnectivityChange) {
        let cx = cx!(self);
        cx.emit(Event::ConnectivityChanged { change });
        for upstream in &mut self.upstreams {
            upstream.handle_connectivity_changed(change, cx!(self));
            upstream.reconcile(cx!(self));
        }
    }

    /// Dispatches commands and events until the queues are empty.
    fn dispatch_all(&mut self) {
        loop {
            if let Some((upstream, command)) = self.dispatch.to_upstream.pop_front() {
                if let UpstreamCommand::OwnStatus { client, request, call } = command {
                    let known = self.own_status.as_ref().and_then(|all| all.upstreams.get(&upstream));
                    let status = known.cloned().unwrap_or_default();
                    self.with_upstream(upstream, |it, cx| it.answer_own_status(client, request, call, &status, cx));
                    continue;
                }
                self.with_upstream(upstream, |it, cx| it.handle_command(command, cx));
            } else if let Some((client, command)) = self.dispatch.to_client.pop_front() {
                self.with_client(client, |it, cx| it.handle_event(command, cx));
            } else {
                return;
            }
        }
    }

    /// Advances the shutdown if a step is due. Runs after every input.
    fn advance(&mut self) {
        if self.phase == Phase::Running && !self.client_gone {
            return;
        }
        if self.phase == Phase::Running && self.lifetime == Lifetime::WithClients {
            if self.clients.is_empty() {
                self.close();
            } else if self.clients.values().all(ClientSession::has_ended) {
                self.begin_drain();
            }
        }
        if self.phase == Phase::Draining && self.running() == 0 {
            self.close();
        }
        if self.phase == Phase::Closing && self.upstreams.iter().all(Upstream::is_over) {
            self.finish();
        }
    }

    fn running(&self) -> usize {
        self.clients.values().map(ClientSession::running).sum()
    }

    /// Accepts no new calls and lets running calls finish. After the end of a client's input, each call's deadline
    /// bounds this; after a request to stop, the drain timeout does.
    fn begin_drain(&mut self) {
        self.phase = Phase::Draining;
        let running = self.running();
        for upstream in &mut self.upstreams {
            upstream.refuse_new_calls();
        }
        cx!(self).emit(Event::Stopping { running });
    }

    fn close(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Draining) {
            if self.phase == Phase::Running {
                cx!(self).emit(Event::Stopping { running: 0 });
            }
            self.phase = Phase::Closing;
            for upstream in &mut self.upstreams {
                upstream.close(cx!(self));
                upstream.reconcile(cx!(self));
            }
            self.dispatch_all();
        }
    }

    fn finish(&mut self) {
        self.phase = Phase::Finished;
        // A timer that is still armed would only wake the shell.
        self.timers = Timers::default();
        let ending = self.upstreams.iter().map(Upstream::ending).max().unwrap_or(Ending::Ready);
        let cx = cx!(self);
        cx.emit(Event::Stopped);
        cx.output(Output::Finished { ending });
    }
}

/// The sizes of an engine's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Requests of clients without an answer.
    pub requests: usize,
    /// Requests of servers without an answer.
    pub server_requests: usize,
    /// Messages that wait for clients.
    pub for_clients: usize,
    /// Calls without an answer.
    pub calls: usize,
    /// Messages that wait for links.
    pub for_links: usize,
    /// Timers that are armed.
    pub timers: usize,
    /// Bytes on the ledger.
    pub bytes: usize,
}
