//! The server side: one configured server, its link, its session and its calls.
//!
//! An [`Upstream`] answers every call that it accepts, by its deadline, with the server's answer or with a failure. It
//! is one state machine in these files:
//! - here: its parts, and the life of its link; [`reconcile`]: what follows from their state after every input;
//! - [`commands`]: commands of clients; [`clients`]: what several clients share;
//! - [`inbound`]: messages of the server;
//! - [`http`]: HTTP exchanges;
//! - [`outage`], [`probing`] and [`login`]: what follows from the condition of the server; [`credential`]: its
//!   credential;
//! - [`gate`]: admission of calls; [`health`]: signs of health; [`pace`]: scheduling;
//! - [`calls`]: queueing, sending, retries and failures of calls; [`deadlines`]: their timers;
//! - [`internal`]: internal requests, for [`resync`] of lists after an outage and for [`keepalive`];
//! - [`startup`]: answers from the cache while the server is not ready;
//! - [`announce`]: notifications about reconnects;
//! - [`reconfigure`]: changes of the configuration; [`idle_stop`]: the end of what is not used;
//! - and its parts: [`link`], [`session`], [`call_table`] of [`call`]s, [`outbox`], [`availability`], [`list_sync`],
//!   [`retry_budget`].

mod announce;
mod availability;
mod call;
mod call_table;
mod calls;
mod clients;
mod commands;
mod credential;
mod deadlines;
mod exchange;
mod gate;
mod health;
mod hints;
mod http;
mod idle_stop;
mod inbound;
mod internal;
mod keepalive;
mod link;
mod list_sync;
mod login;
mod outage;
mod outbox;
mod pace;
mod probing;
mod reconcile;
mod reconfigure;
mod resync;
mod retry_budget;
mod session;
mod silence;
mod startup;

use mendline_wire::{Kind, Message, Method, Spliced};

use self::announce::Announcement;
use self::availability::Availability;
pub use self::availability::Condition;
use self::call::{Call, Owner, SentOver, State};
use self::call_table::CallTable;
use self::clients::Clients;
use self::gate::Gate;
use self::hints::Hints;
use self::internal::InternalRequest;
use self::keepalive::KeepAlive;
use self::link::{EndedBy, Link};
use self::list_sync::ListSync;
use self::outbox::{ByteRange, Outbox};
use self::retry_budget::RetryBudget;
use self::session::Session;
use self::silence::Silence;
use crate::config::UpstreamConfig;
use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::ClientEvent;
use crate::event::{Dropped, Event, LinkState, ToolNames};
use crate::evidence::{Evidence, Reply};
use crate::policy::breaker::BreakerState;
use crate::policy::effect::Tools;
use crate::port::{Ending, Exit, LinkId, Pipe, SpawnError, UpstreamId, Written};
use crate::reason::{ConnectivityChange, HandshakeError, LossReason, Reason};
use crate::request::ClientRequest;
use crate::slab;
use crate::upstream_table::Numbers;

/// One configured server.
#[derive(Debug)]
pub struct Upstream {
    id: UpstreamId,
    config: UpstreamConfig,
    clients: Clients,
    link: Link,
    session: Session,
    calls: CallTable,
    outbox: Outbox,
    tools: Tools,
    lists: ListSync,
    tool_names: ToolNames,
    keep_alive: KeepAlive,
    last_announcement: Announcement,
    /// Answers in a row that only report a dead connection.
    dead_connection_answers: u32,
    retries: RetryBudget,
    availability: Availability,
    gate: Gate,
    hints: Hints,
    silence: Silence,
    phase: Phase,
}

/// The phase in the life of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// The target has changed, and the server is replaced as soon as no call is in flight.
    ReplaceDue,
    /// It is not used, and its process or session ends as soon as it does not start any more.
    StopDue,
    /// New calls are rejected.
    Closing,
}

impl Upstream {
    pub fn new(id: UpstreamId, config: UpstreamConfig) -> Self {
        let config = bounded(config);
        Upstream {
            id,
            clients: Clients::default(),
            link: Link::new(id, &config),
            tools: Tools::new(&config.tools),
            gate: Gate::new(&config),
            config,
            session: Session::new(),
            calls: CallTable::default(),
            outbox: Outbox::default(),
            lists: ListSync::default(),
            tool_names: ToolNames::default(),
            keep_alive: KeepAlive::new(id),
            last_announcement: Announcement::default(),
            dead_connection_answers: 0,
            retries: RetryBudget::new(),
            availability: Availability::new(id),
            hints: Hints::default(),
            silence: Silence::default(),
            phase: Phase::Serving,
        }
    }

    /// Continues the numbers of another upstream that had the same id.
    pub fn with_numbers(mut self, former: Numbers) -> Self {
        self.link.continue_numbers(former);
        self
    }

    /// Records that other upstreams have the same server, which this one stands for.
    pub fn share_dials(&mut self, server: Option<UpstreamId>) {
        self.link.share_dials(server);
    }

    /// The last numbers that it used.
    pub fn numbers(&self) -> Numbers {
        self.link.numbers()
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The state of its breaker.
    pub fn breaker(&self) -> BreakerState {
        self.gate.state()
    }

    /// Records a line of the child's stderr.
    pub fn handle_stderr(&mut self, line: &[u8], cx: &Cx<'_>) {
        if let Link::Child(child) = &mut self.link {
            child.note_stderr(&cx.quote.quote(line, defaults::STDERR_LINE));
        }
    }

    /// Returns whether new calls are rejected.
    fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    /// Calls of clients, accepted and not answered.
    pub fn open_calls(&self) -> usize {
        self.calls.of_clients()
    }

    /// Of these, the sent ones.
    pub fn calls_out(&self) -> usize {
        let is_out = |call: &Call| matches!((call.owner, call.state), (Owner::Client { .. }, State::Sent(_)));
        self.calls.iter().filter(|(_, call)| is_out(call)).count()
    }

    /// Of these, the ones that were reported as silent.
    pub fn silent_calls(&self) -> usize {
        let is_silent = |call: &Call| call.is_silent && matches!(call.state, State::Sent(_));
        self.calls.iter().filter(|(_, call)| is_silent(call)).count()
    }

    /// All calls, internal requests included.
    pub fn held_calls(&self) -> usize {
        self.calls.len()
    }

    /// The limit of calls in flight.
    pub fn in_flight_limit(&self) -> usize {
        self.config.limits.in_flight
    }

    /// Messages queued for the link.
    pub fn queued(&self) -> usize {
        self.outbox.len()
    }

    /// The overall result, for the exit code.
    pub fn ending(&self) -> Ending {
        if self.link.has_ever_answered() {
            Ending::Ready
        } else if self.availability.wants_login() {
            Ending::NeedsLogin
        } else if self.link.has_failed() {
            Ending::NeverReady
        } else {
            Ending::Ready
        }
    }

    /// Ends a child that has lost one of its pipes.
    pub fn handle_broken(&mut self, link: LinkId, pipe: Pipe, cx: &mut Cx<'_>) {
        if self.link.current() == Some(link) {
            self.link.drain(LossReason::PipeClosed(pipe).into(), EndedBy::Server, cx);
        }
    }

    pub fn handle_spawned(&mut self, link: LinkId, pid: u32, cx: &mut Cx<'_>) {
        if self.link.current() != Some(link) || self.link.state() != LinkState::Dialing {
            return;
        }
        self.outbox.reset(cx.ledger);
        let Link::Child(child) = &mut self.link else { return };
        child.handle_spawned(pid, cx);
        if !self.link.is_up() {
            return;
        }
        match self.session.begin() {
            Some(handshake) => self.replay(handshake, cx),
            None => {
                self.link.note_open(cx.now);
                self.lists.set_may_read();
            }
        }
    }

    pub fn handle_spawn_failed(&mut self, link: LinkId, why: &SpawnError, cx: &mut Cx<'_>) {
        let Link::Child(child) = &mut self.link else { return };
        if child.current() == Some(link) {
            child.handle_spawn_failed(why, self.calls.any_waits(), cx);
            self.shorten_grace(cx);
        }
    }

    pub fn handle_exited(&mut self, link: LinkId, how: Exit, accepted: u64, cx: &mut Cx<'_>) {
        if self.link.current() != Some(link) {
            return;
        }
        self.session.lose();
        for client in self.clients.ids() {
            cx.send_to_client(client, ClientEvent::LinkGone { link });
        }
        // The link first: waiting calls shorten the next dial, and its reason is theirs.
        let called = self.open_calls() > 0;
        let Link::Child(child) = &mut self.link else { return };
        child.handle_exited(how, called, cx);
        self.availability.handle_exit();
        self.outbox.reset(cx.ledger);
        self.lose_calls(|range| range.written(accepted), cx);
        self.answer_waiting_lists(cx);
        self.shorten_grace(cx);
    }

    /// Settles all calls of a lost link: sent ones by their evidence; unsent ones wait again.
    fn lose_calls(&mut self, written: impl Fn(ByteRange) -> Written, cx: &mut Cx<'_>) {
        self.retries.note_link_lost();
        let orphans = self.orphans();
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get_mut(key) else { continue };
            match call.state {
                _ if matches!(call.owner, Owner::Us(_)) => drop(self.take(key, cx)),
                State::Waiting { .. } => {}
                State::Queued => {
                    let since = call.waited_since.unwrap_or(cx.now);
                    call.emit_return(self.id, cx);
                    self.calls.wait(key, since, cx.now);
                    self.arm(key, cx);
                }
                // The end of its own exchange decides.
                State::Sent(_) if orphans.contains(&key) => {}
                State::Sent(way) => {
                    let written = match way {
                        SentOver::Stdio(range) => written(range),
                        SentOver::Exchange => Written::Whole,
                    };
                    self.settle_with_link(key, Evidence { written, reply: Reply::None }, cx);
                }
            }
        }
        self.fail_blocked(cx);
    }

    /// Ends the link: a child by the shutdown sequence, an SSE stream by closing it.
    fn drain_link(&mut self, why: Reason, ended_by: EndedBy, cx: &mut Cx<'_>) {
        if self.link.is_being_probed() {
            // The probe has failed.
            self.unreachable(why, false, cx);
        } else {
            self.link.drain(why, ended_by, cx);
        }
        self.drop_sse_stream(cx);
    }

    /// Handles the timer of the link.
    pub fn handle_link_timer(&mut self, cx: &mut Cx<'_>) {
        self.link.handle_timer(cx);
    }

    /// Makes a new connection for the operator.
    pub fn reconnect(&mut self, cx: &mut Cx<'_>) {
        if self.gate.is_isolated() {
            // The operator isolated it; it must be resumed first.
            return;
        }
        cx.emit(Event::ReconnectRequested { upstream: self.id });
        if let Link::Http(http) = &mut self.link {
            http.credential.allow_renewal();
        }
        if self.link.is_up() {
            self.drain_link(LossReason::Requested.into(), EndedBy::Us, cx);
        } else {
            self.link.reconnect(cx);
        }
        self.probe_login(cx);
    }

    /// Redials what is lost and tests what is up, after a resume or a network change.
    pub fn handle_connectivity_changed(&mut self, change: ConnectivityChange, cx: &mut Cx<'_>) {
        self.link.dial_soon(change, cx);
        self.probe(cx);
    }

    /// Returns whether it was closed.
    pub fn is_stopped(&self) -> bool {
        self.link.is_stopped()
    }

    /// Stopped, with nothing left.
    pub fn is_over(&self) -> bool {
        self.link.is_over()
    }

    fn replay(&mut self, handshake: ClientRequest, cx: &mut Cx<'_>) {
        self.send_internal(InternalRequest::Handshake, handshake, cx);
    }

    fn finish_replay(&mut self, handshake: &ClientRequest, answer: &Message, cx: &mut Cx<'_>) {
        let Some(link) = self.link.current() else { return };
        if answer.kind() == Kind::Error {
            let message = answer.get_str(&["message"]).unwrap_or_default();
            let message = cx.quote.quote(message.as_bytes(), defaults::QUOTED);
            let why = Reason::ErrorBody { message: message.clone() };
            cx.emit(Event::SessionReplayFailed { upstream: self.id, link, why });
            self.session.lose();
            self.forget_handshakes(cx);
            let why = HandshakeError::Refused { message, again: self.session.was_ever_ready() };
            return self.drain_link(why.into(), EndedBy::Us, cx);
        }
        // The answer shows that the server is available.
        self.gate.note_probed();
        let is_first = self.session.note_ready();
        self.cache_handshake(handshake, answer, cx);
        self.session.learn_answer(answer.clone());
        if is_first {
            self.compare_handshake(answer, cx);
        }
        if let Some(initialized) = self.session.complete() {
            self.outbox.push_text(Spliced::whole(initialized.text().clone()), Method::Initialized, cx.ledger);
        }
        self.restore(cx);
        cx.emit(match is_first {
            true => Event::HandshakeCompleted { upstream: self.id, link },
            false => Event::SessionReplayed { upstream: self.id, link },
        });
        self.link.note_open(cx.now);
        self.lists.note_new_session();
    }

    fn send_message(&mut self, method: Method, text: Spliced, cx: &mut Cx<'_>) {
        if !self.outbox.try_push_text(text, method, cx.ledger) {
            self.drop_message(method, Dropped::Undeliverable, cx);
        }
    }

    fn drop_message(&self, method: Method, why: Dropped, cx: &mut Cx<'_>) {
        cx.emit(Event::MessageDropped { upstream: self.id, method, why });
    }
}

/// The configuration within the limits of the slab.
fn bounded(mut config: UpstreamConfig) -> UpstreamConfig {
    // There must be a key for every call; some are for internal requests.
    config.limits.in_flight =
        config.limits.in_flight.min(slab::CAPACITY / 2 - defaults::SUBSCRIPTION_STREAMS - defaults::INTERNAL_REQUESTS);
    config.limits.waiting = config.limits.waiting.min(slab::CAPACITY / 2);
    if let Some(policy) = config.keep_alive {
        config.timeouts.ping = policy.timeout;
    }
    config
}
