//! The simulated shell: it executes the outputs of the engine and reports events, by the contract of `port.rs`.

use bytes::Bytes;
use mendline_core::port::{ExchangeId, Pipe, Signal};
use mendline_core::{Input, LinkId, Port};
use mendline_wire::{Limits, Line, Message, Received};

use super::World;
use super::host::LONGEST_SPAWN;
use crate::child::{Child, ProcessState};
use crate::clock::{Due, Ending};
use crate::fact::{Fact, Via};
use crate::machine::EngineOutput;
use crate::oracle::Key;
use crate::server::Server;

/// Maximum number of rounds to settle one point in time.
const ROUNDS: u32 = 100_000;

impl World {
    /// Processes every queue as far as possible at this time.
    pub(super) fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let mut moved = false;
            while let Some(act) = self.machine.poll_output() {
                self.execute(&act);
                moved = true;
            }
            let links: Vec<LinkId> = self.children.keys().copied().collect();
            for link in links {
                moved |= self.feed_child(link);
                moved |= self.read_child(link);
            }
            let exchanges: Vec<ExchangeId> = self.exchanges.keys().copied().collect();
            for exchange in exchanges {
                moved |= self.hand_up(exchange);
            }
            for index in 0..self.clients.len() {
                moved |= self.read_client(index);
                moved |= self.write_client(index);
            }
            if !moved || self.violation.is_some() {
                return;
            }
        }
        self.record(&Fact::ContractBroken("the engine does not settle at one time"));
    }

    fn execute(&mut self, act: &EngineOutput) {
        self.record(&Fact::Requested(act));
        match act {
            EngineOutput::Spawn(link) => self.spawn(*link),
            EngineOutput::CloseStdin(link) => {
                if let Some(child) = self.children.get_mut(link) {
                    child.stdin_closing = true;
                }
            }
            EngineOutput::Signal(link, signal) => self.signal(*link, *signal),
            EngineOutput::Exchange(exchange, upstream, request) => {
                self.begin_exchange(*exchange, *upstream, request.clone());
            }
            EngineOutput::Abort(exchange) => self.abort(*exchange),
            EngineOutput::StoreCatalogue(..) | EngineOutput::UpstreamRemoved(_) => {}
            EngineOutput::RenewCredential(upstream, refused, challenge) => {
                self.request_credential(*upstream, *refused, *challenge);
            }
            // The server behind the new transport knows no sessions, and nothing is cached of it.
            EngineOutput::Renew(upstream) => {
                self.oracle.cached.remove(upstream);
                if let Some(origin) = self.origins.get_mut(*upstream) {
                    origin.authorization.requested = None;
                    origin.conversations.values_mut().for_each(|conversation| conversation.known = false);
                }
            }
            EngineOutput::StreamReady(client, stream) => {
                let index = self.client(*client);
                if let Some(streams) = index.and_then(|index| self.clients[index].streams.as_mut()) {
                    streams.announce(*stream);
                }
            }
            EngineOutput::Event(event) => {
                self.has_emitted = true;
                self.record(&Fact::Emitted(event));
            }
            EngineOutput::Finished => {
                self.finished.get_or_insert(self.clock.now());
            }
        }
    }

    fn spawn(&mut self, link: LinkId) {
        let upstream = usize::from(link.upstream.0);
        let Some(host) = self.hosts.get_mut(upstream) else {
            return self.record(&Fact::ContractBroken("the engine dialed an upstream that is not configured"));
        };
        let rng = host.rng.fork(u64::from(link.dial));
        let (era, profile) = (host.era, host.profile.clone());
        let server = if host.flipped {
            Server::new(era.other(), link.dial, profile, rng.fork(1)).tolerating_violations()
        } else {
            Server::new(era, link.dial, profile, rng.fork(1))
        };
        let child = Child::new(link, host.capacity, server, rng);
        let takes = host.rng.millis(1, LONGEST_SPAWN.as_millis() as u64);
        if self.children.insert(link, child).is_some() {
            self.record(&Fact::ContractBroken("the engine used the id of a link twice"));
        }
        self.clock.after(takes, Due::SpawnEnds(link));
    }

    fn signal(&mut self, link: LinkId, signal: Signal) {
        self.record(&Fact::Signalled(link, Some(signal)));
        let ignores_term = self.hosts.get(usize::from(link.upstream.0)).is_some_and(|host| host.faults.ignores_term);
        match signal {
            Signal::Kill => self.clock.at(self.clock.now(), Due::ChildEnds(link, Ending::Signal(9))),
            Signal::Term if ignores_term => {}
            Signal::Term => {
                let wait = self.rng.millis(1, 40);
                self.clock.after(wait, Due::ChildEnds(link, Ending::Signal(15)));
            }
        }
    }

    /// Writes to a child as much as possible.
    fn feed_child(&mut self, link: LinkId) -> bool {
        let Some(child) = self.children.get(&link) else { return false };
        match child.state {
            ProcessState::Alive => self.write_to(link),
            ProcessState::Dead(_) if child.stdin.unaccepted() > 0 && !child.reported_broken => {
                // The shell learns of a broken pipe before it learns of the end.
                if let Some(child) = self.children.get_mut(&link) {
                    child.reported_broken = true;
                }
                self.send_input(Input::LinkBroken { link, pipe: Pipe::Stdin });
                true
            }
            ProcessState::Reaped(how) if child.stdout.is_empty() => {
                let written = child.stdin.accepted();
                self.children.remove(&link);
                self.send_input(Input::ChildExited { link, how, written });
                self.record(&Fact::Exited(link));
                true
            }
            ProcessState::Spawning | ProcessState::Dead(_) | ProcessState::Reaped(_) => false,
        }
    }

    fn write_to(&mut self, link: LinkId) -> bool {
        let mut moved = false;
        let ahead = self.hosts[usize::from(link.upstream.0)].pull_ahead;
        loop {
            let Some(child) = self.children.get_mut(&link) else { return moved };
            let whole = child.stdin.accept();
            let may_pull = !child.stdin_closing && child.stdin.unaccepted() <= ahead;
            for key in whole {
                self.oracle.of_mut(key).whole += 1;
                self.record(&Fact::Accepted { by: Via::Child(link), key });
            }
            if !may_pull {
                break;
            }
            let now = self.clock.now() + self.slept;
            let Some(text) = self.machine.poll_write(Port::Link(link), now) else { break };
            moved = true;
            let Some(message) = self.parse_output(text.to_bytes()) else { break };
            let key = self.key_of(&message);
            self.record(&Fact::HandedOut { by: Via::Child(link), message: &message, key });
            if let Some(child) = self.children.get_mut(&link) {
                child.stdin.pull(message, key);
            }
        }
        self.wake_reader(link);
        moved
    }

    /// Parses what the engine wrote.
    pub(super) fn parse_output(&mut self, text: Bytes) -> Option<Message> {
        if text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            self.record(&Fact::ContractBroken("the engine wrote a message with a line end in it"));
            return None;
        }
        match Message::parse(text) {
            Ok(message) => Some(message),
            Err(error) => {
                self.record(&Fact::ContractBroken(&format!("the engine wrote an invalid message: {error}")));
                None
            }
        }
    }

    pub(super) fn key_of(&self, message: &Message) -> Option<Key> {
        message.id()?;
        let raw = message.get(&["_meta", "sim/key"])?;
        let key = Key(std::str::from_utf8(raw).ok()?.parse().ok()?);
        self.oracle.find(key).map(|_| key)
    }

    /// Reads one line of a child, if the engine accepts input.
    fn read_child(&mut self, link: LinkId) -> bool {
        let now = self.clock.now();
        let Some(child) = self.children.get_mut(&link) else { return false };
        if child.state == ProcessState::Spawning {
            return false;
        }
        if let Some(line) = child.stderr.pop_front() {
            self.send_input(Input::Stderr { link, line });
            return true;
        }
        if !child.has_output(now) || !self.machine.may_read(Port::Link(link)) {
            return false;
        }
        let Some((_, line)) = child.stdout.pop_front() else { return false };
        let limit = self.hosts[usize::from(link.upstream.0)].faults.line_limit;
        let line = match limit {
            Some(limit) if line.len() > limit => {
                let (head, tail) = (line.slice(..line.len().min(4_096)), line.slice(line.len().saturating_sub(256)..));
                Line::TooLong { length: line.len() as u64, head, tail }
            }
            _ => Line::Text(line),
        };
        let received = Received::from_line(line, &Limits::default());
        self.record_received(Via::Child(link), &received);
        self.send_input(Input::FromLink { link, received });
        true
    }

    /// Records that the engine received something from a server.
    pub(super) fn record_received(&mut self, by: Via, received: &Received) {
        self.record_progress(received);
        match received {
            Received::Message(message) => self.record(&Fact::Received { by, message: Some(message) }),
            _ => self.record(&Fact::Received { by, message: None }),
        }
    }

    /// Records progress, which extends a deadline.
    fn record_progress(&mut self, received: &Received) {
        let Received::Message(message) = received else { return };
        if message.method() == mendline_wire::Method::Progress {
            let key = message.get(&["_meta", "sim/key"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse().ok());
            if let Some(key) = key.map(Key).filter(|key| self.oracle.find(*key).is_some()) {
                self.oracle.of_mut(key).progressed = Some(self.clock.now());
            }
        }
    }
}
