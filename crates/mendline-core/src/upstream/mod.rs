//! The side that faces servers: one configured server, its link, its session and the calls made to it.
//!
//! An [`Upstream`] answers every call that it accepts, by its deadline, live or with the reason why not. It is one machine in
//! four files, by who speaks:
//! - here: its parts, what clients want of it (`handle_letter`), and the life of its link;
//! - [`inbound`]: what the server says;
//! - [`calls`]: how a call gets a place, goes out, goes out again, fails, or runs out of time;
//! - and the small machines that it is made of: [`link`], [`session`], [`call`], [`outbox`].

mod call;
mod calls;
mod inbound;
mod link;
mod outbox;
mod session;

use std::collections::VecDeque;
use std::time::Duration;

use mendline_wire::{Kind, Message, Method, Patch, Spliced, meta};

use self::call::{Call, Owner, State, describe};
use self::link::{Link, Wish};
use self::outbox::Outbox;
use self::session::Session;
use crate::config::UpstreamConfig;
use crate::event::{Dropped, Event, LinkState};
use crate::evidence::{Evidence, Outcome, Reply};
use crate::mail::{ToClient, ToUpstream};
use crate::moment::Moment;
use crate::policy::budget::Budget;
use crate::policy::effect::Tools;
use crate::port::{ClientId, Exit, LinkId, Pipe, SpawnFailure, UpstreamId};
use crate::slab::{self, Key, Slab};
use crate::turn::Turn;
use crate::words::{self, Cause, Failure};

/// One configured server.
#[derive(Debug)]
pub struct Upstream {
    id: UpstreamId,
    config: UpstreamConfig,
    clients: Vec<ClientId>,
    link: Link,
    session: Session,
    calls: Slab<Call>,
    /// Calls in `State::Waiting`, oldest first.
    waiting: VecDeque<Key>,
    outbox: Outbox,
    tools: Tools,
    budget: Budget,
    ever_answered: bool,
    /// Takes no new calls.
    closing: bool,
}

impl Upstream {
    pub fn new(id: UpstreamId, mut config: UpstreamConfig) -> Self {
        // Whatever is configured, there must be a name for every call; one place is the session's own.
        config.limits.in_flight = config.limits.in_flight.min(slab::CAPACITY / 2 - 1);
        config.limits.waiting = config.limits.waiting.min(slab::CAPACITY / 2);
        Upstream {
            id,
            clients: Vec::new(),
            link: Link::new(id, config.reconnect.clone()),
            config,
            session: Session::new(),
            calls: Slab::default(),
            waiting: VecDeque::new(),
            outbox: Outbox::default(),
            tools: Tools::default(),
            budget: Budget::new(Moment::ZERO),
            ever_answered: false,
            closing: false,
        }
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    pub fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Who is served by it.
    pub fn clients(&self) -> &[ClientId] {
        &self.clients
    }

    /// Calls accepted and not answered.
    pub fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Messages queued for the link.
    pub fn queued(&self) -> usize {
        self.outbox.len()
    }

    /// Did it ever answer, or has nothing gone wrong so far?
    pub fn was_ever_ready(&self) -> bool {
        self.ever_answered || !self.link.had_trouble()
    }

    pub fn handle_letter(&mut self, letter: ToUpstream, turn: &mut Turn<'_>) {
        match letter {
            ToUpstream::Open { client } => {
                self.clients.push(client);
                self.link.open(turn);
            }
            ToUpstream::Call { client, request, message } => self.accept(client, request, message, turn),
            ToUpstream::Cancel { client, request, message } => self.cancel(client, request, &message, turn),
            ToUpstream::Reply { link, id, message } => {
                let reply = message.id_span().map(|at| Spliced::new(message.text().clone(), [(at, Patch::from(id))]));
                match reply {
                    Some(reply) if self.link.is_up() && self.link.current() == Some(link) => {
                        self.say(Method::None, reply, turn);
                    }
                    _ => self.drop_message(Method::None, Dropped::StaleReply, turn),
                }
            }
            ToUpstream::Decline { link, id, why } => {
                turn.tell(Event::AskDeclined { upstream: self.id, why });
                if self.link.is_up() && self.link.current() == Some(link) {
                    let text = words::error_response(&id, Cause::Unavailable.code(), why);
                    self.say(Method::None, Spliced::whole(text), turn);
                }
            }
            ToUpstream::Progress { link, token, at, message } => {
                if self.link.is_up() && self.link.current() == Some(link) {
                    let text = Spliced::new(message.text().clone(), [(at, Patch::from(token.as_slice()))]);
                    self.say(Method::Progress, text, turn);
                } else {
                    self.drop_message(Method::Progress, Dropped::StaleProgress, turn);
                }
            }
            ToUpstream::Notice { message } => {
                self.session.learn_notice(&message);
                let method = message.method();
                if self.link.is_up() && self.session.is_open() {
                    self.say(method, Spliced::whole(message.text().clone()), turn);
                } else if method != Method::Initialized {
                    // `initialized` is not lost: it is part of the greeting that will be replayed.
                    self.drop_message(method, Dropped::NoWay, turn);
                }
            }
            ToUpstream::Close { client } => self.abandon(client, turn),
        }
    }

    fn accept(&mut self, client: ClientId, request: Key, message: Message, turn: &mut Turn<'_>) {
        if self.closing {
            return self.turn_away(client, request, &message, Cause::Unavailable, "Mendline is stopping".into(), turn);
        }
        if self.link.is_parked() {
            let why = self.link.trouble().to_owned();
            self.link.wake(turn);
            return self.turn_away(client, request, &message, Cause::Parked, why, turn);
        }
        let has_place = self.waiting.is_empty() && self.has_place();
        if !has_place && self.waiting.len() >= self.config.limits.waiting {
            let why = format!("{} are waiting, which is the limit", self.waiting.len());
            return self.turn_away(client, request, &message, Cause::Overloaded, why, turn);
        }
        let size = message.text().len();
        if !turn.ledger.try_charge(size) {
            let why = format!("{} bytes are held in memory, which is near the limit", turn.ledger.held());
            return self.turn_away(client, request, &message, Cause::Overloaded, why, turn);
        }
        let effect = self.tools.effect_of(&message);
        let method = message.method();
        let call = Call::new(Owner::Client { client, request }, message, effect, turn.now);
        let Some(key) = self.calls.insert(call) else {
            turn.ledger.release(size);
            return;
        };
        if let Some(call) = self.calls.get_mut(key) {
            call.name = key.number();
        }
        turn.tell(Event::CallAccepted { upstream: self.id, call: key.number(), method });
        if has_place {
            self.enqueue(key);
        } else {
            self.waiting.push_back(key);
            self.link.wake(turn);
        }
        self.arm(key, turn);
    }

    fn turn_away(
        &mut self,
        client: ClientId,
        request: Key,
        message: &Message,
        cause: Cause,
        detail: String,
        turn: &mut Turn<'_>,
    ) {
        let retry_after = match cause {
            Cause::Parked => Some(self.link.next_try(turn.now).max(Duration::from_secs(1))),
            Cause::Overloaded => Some(Duration::from_secs(1)),
            _ => None,
        };
        turn.tell(Event::CallTurnedAway { upstream: self.id, method: message.method(), cause });
        let failure = Failure {
            cause,
            outcome: Outcome::NotSent,
            retryable: true,
            attempts: 0,
            retry_after,
            upstream: self.config.name.clone(),
            what: describe(message),
            detail,
        };
        turn.mail_client(client, ToClient::Fail { request, failure: Box::new(failure) });
    }

    fn cancel(&mut self, client: ClientId, request: Key, notice: &Message, turn: &mut Turn<'_>) {
        let owner = Owner::Client { client, request };
        let Some((key, _)) = self.calls.iter().find(|(_, call)| call.owner == owner) else { return };
        let Some(call) = self.take(key, turn) else { return };
        let sent = matches!(call.state, State::Sent(_));
        turn.tell(Event::CallCancelled { upstream: self.id, call: call.name, sent });
        if let (true, Some(at)) = (sent, notice.find(&["requestId"])) {
            let text = Spliced::new(notice.text().clone(), [(at, Patch::number(key.number()))]);
            self.outbox.push_text(text, turn.ledger);
        }
        self.promote(turn);
    }

    /// A client has gone without a word. In the modern era that cancels what it asked for; in the legacy era it does not.
    fn abandon(&mut self, client: ClientId, turn: &mut Turn<'_>) {
        self.clients.retain(|it| *it != client);
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get(key) else { continue };
            if !matches!(call.owner, Owner::Client { client: owner, .. } if owner == client) {
                continue;
            }
            let Some(call) = self.take(key, turn) else { continue };
            turn.tell(Event::CallAbandoned { upstream: self.id, call: call.name });
            if matches!(call.state, State::Sent(_)) && meta::is_modern(&call.message) {
                self.cancel_upstream(key, "the client has gone", turn);
            }
        }
        self.promote(turn);
    }

    // ---- the life of the link ----

    /// One of the child's pipes is gone: nothing can be said or heard any more, so it is ended.
    pub fn handle_broken(&mut self, link: LinkId, pipe: Pipe, turn: &mut Turn<'_>) {
        if self.link.current() == Some(link) {
            let why = match pipe {
                Pipe::Stdin => "the server closed its stdin",
                Pipe::Stdout => "the server closed its stdout",
            };
            self.link.drain(why, Wish::Servers, turn);
        }
    }

    pub fn handle_spawned(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        if self.link.current() != Some(link) || self.link.state() != LinkState::Dialing {
            return;
        }
        self.outbox.reset(turn.ledger);
        self.link.handle_spawned(turn);
        if !self.link.is_up() {
            return;
        }
        match self.session.begin() {
            Some(greeting) => self.replay(greeting, turn),
            None => {
                self.link.note_open(turn.now);
                self.promote(turn);
            }
        }
    }

    pub fn handle_spawn_failed(&mut self, link: LinkId, why: &SpawnFailure, turn: &mut Turn<'_>) {
        if self.link.current() == Some(link) {
            let called = !self.waiting.is_empty();
            self.link.handle_spawn_failed(why, called, turn);
            self.give_up_if_parked(turn);
        }
    }

    pub fn handle_exited(&mut self, link: LinkId, how: Exit, accepted: u64, turn: &mut Turn<'_>) {
        if self.link.current() != Some(link) {
            return;
        }
        self.session.lose();
        for client in self.clients.clone() {
            turn.mail_client(client, ToClient::LinkGone { link });
        }
        // The link first: whether calls still wait decides how soon it is dialed again, and its words are theirs.
        let called = !self.calls.is_empty();
        self.link.handle_exited(how, called, turn);
        self.outbox.reset(turn.ledger);
        for key in self.calls.keys_by_age() {
            let Some(call) = self.calls.get_mut(key) else { continue };
            match call.state {
                _ if call.owner == Owner::Session => drop(self.take(key, turn)),
                State::Waiting { .. } => {}
                State::Queued => {
                    call.state = State::Waiting { since: turn.now, not_before: turn.now };
                    self.waiting.push_back(key);
                    self.arm(key, turn);
                }
                State::Sent(place) => {
                    let evidence = Evidence { written: place.written(accepted), reply: Reply::None };
                    self.settle(key, evidence, turn.now, turn);
                }
            }
        }
        self.sort_waiting();
        self.give_up_if_parked(turn);
    }

    fn replay(&mut self, greeting: Message, turn: &mut Turn<'_>) {
        let effect = self.tools.effect_of(&greeting);
        turn.ledger.charge(greeting.text().len());
        let Some(key) = self.calls.insert(Call::new(Owner::Session, greeting, effect, turn.now)) else { return };
        self.enqueue(key);
        self.arm(key, turn);
    }

    fn finish_replay(&mut self, answer: &Message, turn: &mut Turn<'_>) {
        let Some(link) = self.link.current() else { return };
        if answer.kind() == Kind::Error {
            let why = answer.get_str(&["message"]).unwrap_or_default().into_owned();
            turn.tell(Event::SessionReplayFailed { upstream: self.id, link, why });
            return self.link.drain("the server refused to be greeted again", Wish::Ours, turn);
        }
        if let Some(initialized) = self.session.complete() {
            self.outbox.push_text(Spliced::whole(initialized.text().clone()), turn.ledger);
        }
        turn.tell(Event::SessionReplayed { upstream: self.id, link });
        self.link.note_open(turn.now);
    }

    fn say(&mut self, method: Method, text: Spliced, turn: &mut Turn<'_>) {
        if !self.outbox.try_push_text(text, turn.ledger) {
            self.drop_message(method, Dropped::NoWay, turn);
        }
    }

    fn sort_waiting(&mut self) {
        let calls = &self.calls;
        self.waiting.make_contiguous().sort_by_key(|key| calls.get(*key).map(|call| call.name));
    }

    fn drop_message(&self, method: Method, why: Dropped, turn: &mut Turn<'_>) {
        turn.tell(Event::MessageDropped { upstream: self.id, method, why });
    }
}
