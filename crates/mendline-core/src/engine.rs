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
use crate::config::{Config, CredentialKind, FailureForm, Lifetime, UpstreamConfig};
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::dial_pace::DialPaces;
use crate::dispatch::{ClientEvent, Dispatch, UpstreamCommand};
use crate::event::{CredentialState, Event, LinkState};
use crate::evidence::Outcome;
use crate::ledger::Ledger;
use crate::moment::Moment;
use crate::policy::breaker::BreakerState;
use crate::policy::tool_filter::ToolFilter;
use crate::port::{ClientId, ClientStreams, Input, LinkId, Output, Port, StreamId, StreamMessage, UpstreamId};
use crate::quote::{Quote, Unredacted};
use crate::reason::{ConnectivityChange, RefusalReason};
use crate::rng::SeededRng;
use crate::status::Status;
use crate::timers::Timers;
use crate::upstream::Upstream;
use crate::upstream_table::UpstreamTable;
use crate::words::{Cause, Failure};

/// The engine.
#[derive(Debug)]
pub struct Engine {
    clients: BTreeMap<ClientId, ClientSession>,
    upstreams: UpstreamTable,
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
    dial_paces: DialPaces,
    /// The number of accepted calls.
    accepted: u64,
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
            dial_paces: &mut $engine.dial_paces,
            accepted: &mut $engine.accepted,
            quote: &*$engine.quote,
        }
    };
}

mod shutdown;

use shutdown::Phase;

impl Engine {
    /// Creates an engine for these upstreams. Its randomness comes from `seed` alone.
    pub fn new(config: Config, seed: u64) -> Self {
        Engine {
            clients: BTreeMap::new(),
            upstreams: UpstreamTable::new(config.upstreams),
            lifetime: config.lifetime,
            phase: Phase::Running,
            client_gone: false,
            now: Moment::ZERO,
            timers: Timers::default(),
            ledger: Ledger::new(config.ledger_bytes),
            rng: SeededRng::new(seed),
            outputs: VecDeque::new(),
            dispatch: Dispatch::default(),
            dial_paces: DialPaces::default(),
            accepted: 0,
            quote: Arc::new(Unredacted),
            own_status: None,
        }
    }

    /// Sets the function that quotes text of peers.
    pub fn quote_with(&mut self, quote: Arc<dyn Quote>) {
        self.quote = quote;
    }

    // ---- inputs ----

    /// Handles one input. Inputs that every call causes are taken apart here, so that they are not moved.
    pub fn handle(&mut self, input: Input, now: Moment) {
        self.now = self.now.max(now);
        match input {
            Input::FromClient { client, stream, received } => {
                self.with_client(client, |it, cx| it.handle_received(stream, received, cx));
            }
            Input::FromLink { link, received } => {
                self.with_upstream(link, |it, cx| it.handle_received(link, received, cx));
            }
            Input::Reached { exchange } => self.with_upstream(exchange, |it, cx| it.handle_reached(exchange, cx)),
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
            Input::Spawned { link, .. }
            | Input::SpawnFailed { link, .. }
            | Input::Stderr { link, .. }
            | Input::LinkBroken { link, .. }
            | Input::ChildExited { link, .. } => self.handle_child(link, input),
            other => self.handle_other(other),
        }
        self.dispatch_all();
        self.advance();
    }

    /// Handles an input that is not part of an ordinary call.
    fn handle_other(&mut self, input: Input) {
        match input {
            Input::Cached { upstream, what } => {
                self.with_upstream(upstream, |it, cx| it.handle_cached(what, cx));
            }
            Input::ClientOpened { client, upstream, streams } => self.open(client, upstream, streams),
            Input::StreamAttached { client, stream } => {
                self.with_client(client, |it, cx| it.handle_attached(stream, cx));
            }
            Input::StreamDetached { client, stream } => self.with_client(client, |it, _| it.handle_detached(stream)),
            Input::StreamClosed { client, stream } => {
                self.with_client(client, |it, cx| it.handle_closed(stream, cx));
            }
            Input::RequestRefused { upstream, client, method, tool, why } => {
                self.with_upstream(upstream, |it, cx| it.note_refused(client, method, tool.as_deref(), why, cx));
            }
            Input::ClientEnded { client } => self.client_ended(client),
            Input::ClientLost { client } => self.client_lost(client),
            Input::CredentialChanged { upstream, number } => {
                self.with_upstream(upstream, |it, cx| it.handle_credential_changed(number, cx));
            }
            Input::CredentialFailed { upstream, why } => {
                self.with_upstream(upstream, |it, cx| it.handle_credential_failed(why, cx));
            }
            Input::Reconnect { upstream } => self.with_upstream(upstream, Upstream::reconnect),
            Input::ReconnectAll => self.with_each_upstream(Upstream::reconnect),
            Input::Isolate { upstream } => self.with_upstream(upstream, Upstream::isolate),
            Input::Resume { upstream } => self.with_upstream(upstream, Upstream::resume_manually),
            Input::Reconfigure { upstream, config, change } => {
                self.set_tool_filter(upstream, &config.tool_filter);
                self.with_upstream(upstream, |it, cx| it.reconfigure(*config, change, cx));
            }
            Input::AddUpstream { upstream, config, like } => self.add(upstream, *config, like),
            Input::RemoveUpstream { upstream } => self.remove(upstream),
            Input::StopIdle { upstream } => self.with_upstream(upstream, Upstream::stop_idle),
            Input::SystemResumed => self.connectivity_changed(ConnectivityChange::SystemResumed),
            Input::NetworkChanged => self.connectivity_changed(ConnectivityChange::NetworkChanged),
            Input::Stop => self.stop(),
            // Handled before.
            _ => debug_assert!(false, "an input of a call"),
        }
    }

    /// Handles an input of a child process.
    fn handle_child(&mut self, link: LinkId, input: Input) {
        self.with_upstream(link, |it, cx| match input {
            Input::Spawned { pid, .. } => it.handle_spawned(link, pid, cx),
            Input::SpawnFailed { why, .. } => it.handle_spawn_failed(link, &why, cx),
            Input::Stderr { line, .. } => it.handle_stderr(&line, cx),
            Input::LinkBroken { pipe, .. } => it.handle_broken(link, pipe, cx),
            Input::ChildExited { how, written, .. } => it.handle_exited(link, how, written, cx),
            _ => debug_assert!(false, "not an input of a child"),
        });
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
                Alarm::Remove(upstream) => self.with_upstream(upstream, Upstream::close_once),
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
            Port::Link(link) => self.upstreams.get_mut(link.upstream)?.pull(link, cx!(self)),
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
        match self.upstreams.get(upstream).and_then(Upstream::only_client) {
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
        self.upstreams.get(upstream).map_or(0, Upstream::in_flight_limit)
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
        self.upstreams.get(upstream).map(Upstream::credential_state)
    }

    /// The number of an upstream's credential.
    pub fn credential_number(&self, upstream: UpstreamId) -> Option<u32> {
        self.upstreams.get(upstream).and_then(Upstream::credential_number)
    }

    /// The state of an upstream's link.
    pub fn link_state(&self, upstream: UpstreamId) -> Option<LinkState> {
        self.upstreams.get(upstream).map(|upstream| upstream.link().state())
    }

    /// The state of an upstream's breaker.
    pub fn breaker(&self, upstream: UpstreamId) -> Option<BreakerState> {
        self.upstreams.get(upstream).map(Upstream::breaker)
    }

    /// Calls of an upstream that are accepted and not answered.
    pub fn open_calls(&self, upstream: UpstreamId) -> usize {
        self.upstreams.get(upstream).map_or(0, Upstream::open_calls)
    }

    /// Of these, the calls that are sent.
    pub fn calls_out(&self, upstream: UpstreamId) -> usize {
        self.upstreams.get(upstream).map_or(0, Upstream::calls_out)
    }

    /// Of these, the calls that were reported as silent.
    pub fn silent_calls(&self, upstream: UpstreamId) -> usize {
        self.upstreams.get(upstream).map_or(0, Upstream::silent_calls)
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
        let own_tools = self.upstreams.get(upstream).is_some_and(Upstream::has_own_tools);
        if own_tools {
            self.own_status.get_or_insert_default();
        }
        let mut session = ClientSession::new(client, upstream, &streams).with_own_tools(own_tools);
        if let Some(upstream) = self.upstreams.get(upstream) {
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
        if let Some(upstream) = self.upstreams.get_mut(id.into()) {
            does(upstream, cx!(self));
            upstream.reconcile(cx!(self));
        }
    }

    /// Connections may be lost, and unreachable servers may be reachable.
    fn connectivity_changed(&mut self, change: ConnectivityChange) {
        let cx = cx!(self);
        cx.emit(Event::ConnectivityChanged { change });
        self.with_each_upstream(|it, cx| it.handle_connectivity_changed(change, cx));
    }

    fn with_each_upstream(&mut self, does: impl Fn(&mut Upstream, &mut Cx<'_>)) {
        for upstream in self.upstreams.iter_mut() {
            does(upstream, cx!(self));
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
                self.pass_command(upstream, command);
            } else if let Some((client, command)) = self.dispatch.to_client.pop_front() {
                self.with_client(client, |it, cx| it.handle_event(command, cx));
            } else {
                return;
            }
        }
    }

    fn pass_command(&mut self, upstream: UpstreamId, command: UpstreamCommand) {
        match self.upstreams.get_mut(upstream) {
            Some(it) => {
                it.handle_command(command, cx!(self));
                it.reconcile(cx!(self));
            }
            None => self.answer_without_upstream(command),
        }
    }

    /// Answers a request to an upstream that was removed.
    fn answer_without_upstream(&mut self, command: UpstreamCommand) {
        let UpstreamCommand::Call { client, request, call } = command else { return };
        let failure = Failure {
            call: None,
            cause: Cause::Unavailable,
            outcome: Outcome::NotSent,
            retryable: false,
            attempts: 0,
            retry_after: None,
            upstream: String::new(),
            what: call.describe(),
            why: RefusalReason::Removed.into(),
            needs_person: true,
            credential: CredentialKind::Fixed,
            modern: call.is_modern(),
            form: FailureForm::default(),
        };
        cx!(self).send_to_client(client, ClientEvent::Fail { request, failure: Box::new(failure) });
    }

    /// Adds an upstream, with the lists of another one that has the same server.
    fn add(&mut self, upstream: UpstreamId, config: UpstreamConfig, like: Option<UpstreamId>) {
        let name = config.name.clone();
        if self.phase != Phase::Running || !self.upstreams.add(upstream, config) {
            return;
        }
        cx!(self).emit(Event::UpstreamAdded { upstream, name, like });
        for id in like.into_iter().flat_map(|like| [like, upstream]) {
            self.upstreams.get_mut(id).into_iter().for_each(|it| it.share_dials(like));
        }
        if let Some(lists) = like.and_then(|like| self.upstreams.get(like)).map(|it| it.list_cache(self.now)) {
            self.with_upstream(upstream, |it, cx| it.handle_cached(lists, cx));
        }
    }

    /// Removes an upstream: it gets no new calls, and ends when the running ones are over.
    fn remove(&mut self, upstream: UpstreamId) {
        if !self.upstreams.note_leaving(upstream) {
            return;
        }
        self.with_upstream(upstream, |it, _| it.refuse_new_calls());
        if self.upstreams.get(upstream).is_some_and(|it| it.open_calls() > 0) {
            cx!(self).wake_in(defaults::DRAIN, Alarm::Remove(upstream));
        }
    }

    /// Advances the removal of upstreams. Runs after every input while one is being removed.
    fn advance_removals(&mut self) {
        for id in self.upstreams.leaving() {
            let Some(upstream) = self.upstreams.get_mut(id) else { continue };
            if upstream.open_calls() == 0 && !upstream.is_stopped() {
                upstream.close(cx!(self));
                upstream.reconcile(cx!(self));
                self.dispatch_all();
            }
            if !self.upstreams.get(id).is_some_and(Upstream::is_over) {
                continue;
            }
            let clients = self.clients.values_mut().filter(|client| client.upstream() == id);
            clients.for_each(ClientSession::lose_upstream);
            self.upstreams.remove(id);
            self.timers.disarm_where(|alarm| alarm.upstream() == Some(id));
            self.dial_paces.forget(id);
            let cx = cx!(self);
            cx.emit(Event::UpstreamRemoved { upstream: id });
            cx.output(Output::UpstreamRemoved { upstream: id });
        }
    }

    /// Advances removals and the shutdown. Runs after every input.
    fn advance(&mut self) {
        if self.upstreams.is_any_leaving() {
            self.advance_removals();
        }
        if self.phase != Phase::Running || self.client_gone {
            self.advance_shutdown();
        }
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
