//! The clients of the engine: they write, read, answer and disconnect.

use std::time::Duration;

use mendline_core::{ClientId, Input, Port, StreamId};
use mendline_wire::{Limits, Line, Message, Method, Received, Spliced};

use super::World;
use crate::client::{ClientState, Incoming, Probe};
use crate::client_streams::ClientStreams;
use crate::clock::Due;
use crate::fact::Fact;
use crate::oracle::{Key, Verdict};

/// The tolerance of deadlines.
const TICK: Duration = Duration::from_millis(1);
/// Additional tolerance of the recovery timeout: it is not checked while a connection is being established.
const ONE_CONNECTION: Duration = Duration::from_secs(6);

/// Returns whether a body is an error.
fn is_error(body: &[u8]) -> bool {
    body.starts_with(br#"{"code":"#)
}

impl World {
    pub(super) fn client_acts(&mut self, id: ClientId) {
        let Some(index) = self.client(id) else { return };
        if let Probe::Under(_) = self.clients[index].probe {
            self.clients[index].probe_call(&mut self.oracle);
        } else if let Some(wait) = self.clients[index].act(&mut self.oracle) {
            self.clock.after(wait, Due::ClientActs(id));
        }
    }

    pub(super) fn client_replies(&mut self, id: ClientId, number: u32) {
        if let Some(index) = self.client(id)
            && self.clients[index].is_connected()
        {
            self.clients[index].reply(number);
        }
    }

    /// Passes one line of a client to the engine, if it accepts input.
    pub(super) fn read_client(&mut self, index: usize) -> bool {
        let client = &mut self.clients[index];
        let id = client.id;
        // A shell that knows that the engine is finished reads no more.
        if client.state == ClientState::Gone || self.finished.is_some() || !self.machine.may_read(Port::Client(id)) {
            return false;
        }
        let Some((line, keys)) = client.outbox.pop_front() else {
            let closes = std::mem::take(&mut client.closing);
            if closes {
                client.state = ClientState::Ended;
                self.send_input(Input::ClientEnded { client: id });
            }
            return closes;
        };
        let now = self.clock.now();
        for key in keys {
            let upstream = self.oracle.of(key).upstream;
            let terms = self.oracle.terms[upstream];
            let record = self.oracle.of_mut(key);
            (record.arrived, record.terms) = (Some(now), Some(terms));
            if let Some(due) = record.due() {
                self.clock.at(due + TICK, Due::AnswerDue(key));
            }
            if self.hosts[upstream].site.is_some() {
                self.clock.after(terms.recovery + ONE_CONNECTION, Due::RecoveryEnds(key));
            }
            self.record(&Fact::Arrived(key));
        }
        let received = Received::from_line(Line::Text(line), &Limits::default());
        let stream =
            self.clients[index].streams.as_mut().map_or(StreamId::COMMON, |streams| streams.of_frame(&received));
        // A list that is read late would be taken for a newer one than a notification that was read before.
        let may_be_lost = matches!(&received, Received::Message(message) if message.method() == Method::ToolsCall);
        self.send_input(Input::FromClient { client: id, stream, received });
        if may_be_lost {
            self.lose_stream(index, stream);
        }
        true
    }

    /// Lets a stream lose its connection for a while, or not.
    fn lose_stream(&mut self, index: usize, stream: StreamId) {
        let client = &mut self.clients[index];
        let id = client.id;
        let Some(streams) = client.streams.as_mut() else { return };
        if streams.loses(stream) {
            self.clock.after(streams.pause(), Due::StreamReattaches(id));
            self.send_input(Input::StreamDetached { client: id, stream });
        }
    }

    pub(super) fn stream_reattaches(&mut self, id: ClientId) {
        let streams = self.client(id).and_then(|index| self.clients[index].streams.as_mut());
        if let Some(stream) = streams.and_then(|streams| streams.reattached()) {
            self.send_input(Input::StreamAttached { client: id, stream });
        }
    }

    /// Attaches every stream, and lets none lose its connection any more: what waits at the end is read.
    pub(crate) fn reattach_all_streams(&mut self) {
        for index in 0..self.clients.len() {
            let client = self.clients[index].id;
            let streams = self.clients[index].streams.as_mut();
            for stream in streams.map(ClientStreams::stay_attached).unwrap_or_default() {
                self.send_input(Input::StreamAttached { client, stream });
            }
        }
    }

    /// Returns the next message for a client.
    fn next_message(&mut self, index: usize) -> Option<Spliced> {
        let now = self.clock.now() + self.slept;
        let client = &mut self.clients[index];
        let id = client.id;
        let Some(streams) = client.streams.as_mut() else { return self.machine.poll_write(Port::Client(id), now) };
        while let Some(stream) = streams.next_ready() {
            // Nothing comes of a stream that is over without a message, or has none now.
            if let Some(Some(message)) = self.machine.poll_stream(id, stream, now) {
                streams.announce(stream);
                if !streams.is_of_stream(&message.to_bytes(), stream) {
                    self.record(&Fact::ContractBroken("an answer was written to the stream of another request"));
                }
                return Some(message);
            }
        }
        None
    }

    /// Writes to a client as much as it accepts.
    pub(super) fn write_client(&mut self, index: usize) -> bool {
        let id = self.clients[index].id;
        if self.clients[index].state == ClientState::Gone {
            return false;
        }
        let mut moved = false;
        loop {
            self.clients[index].inbox.accept();
            if self.clients[index].inbox.unaccepted() > 0 {
                break;
            }
            let Some(text) = self.next_message(index) else { break };
            moved = true;
            let Some(message) = self.parse_output(text.to_bytes()) else { break };
            self.clients[index].inbox.pull(message, None);
        }
        let client = &mut self.clients[index];
        self.oracle.readers.entry(id).or_default().behind = client.is_behind();
        if client.inbox.unread() > 0 && client.reads && !client.will_read {
            client.will_read = true;
            self.clock.after(Duration::from_micros(100), Due::ClientReads(id));
        }
        moved
    }

    pub(super) fn client_reads(&mut self, id: ClientId) {
        let Some(index) = self.client(id) else { return };
        let client = &mut self.clients[index];
        client.will_read = false;
        if !client.reads || client.state == ClientState::Gone {
            return;
        }
        for queued in client.inbox.read(1 << 16) {
            self.client_receives(index, &queued.message);
        }
    }

    fn client_receives(&mut self, index: usize, message: &Message) {
        let client = self.clients[index].id;
        match self.clients[index].receive(message, &mut self.oracle) {
            Incoming::Answer(key, verdict, stamp) => {
                self.record(&Fact::Answered { key, verdict: &verdict, stamp });
                self.judge_probe(index, key, &verdict);
            }
            Incoming::Surplus => self.record(&Fact::Surplus { client, message }),
            Incoming::Progress(named, meant, value, stamp) => {
                self.record(&Fact::Progressed { client, named, meant, value, stamp });
            }
            Incoming::Notice(stamp) => self.record(&Fact::NotificationRead { client, message, stamp }),
            Incoming::ServerRequest(number, wait, stamp) => {
                self.record(&Fact::ServerRequestRead { client, stamp });
                self.clock.after(wait, Due::ClientReplies(client, number));
            }
            Incoming::Wrong(text) => self.record(&Fact::ClientViolation { client, text: &text }),
        }
    }

    /// Repeats the probe of a client until it succeeds or times out.
    fn judge_probe(&mut self, index: usize, key: Key, verdict: &Verdict) {
        let Probe::Under(_) = self.clients[index].probe else { return };
        let client = self.clients[index].id;
        match verdict {
            Verdict::Passed(body) if self.oracle.of(key).what == "read_note" && !is_error(body) => {
                self.clients[index].probe = Probe::Done;
                self.record(&Fact::Recovered(client));
            }
            // The handshake completed or the call failed: the next attempt follows.
            _ => self.clock.after(Duration::from_millis(500), Due::ClientActs(client)),
        }
    }

    pub(super) fn answer_due(&mut self, key: Key) {
        let record = self.oracle.of(key);
        let client = record.client;
        if !record.is_open() || self.oracle.is_gone(client) || self.finished.is_some() {
            return;
        }
        let Some(due) = record.due() else { return };
        let now = self.clock.now();
        let Some(index) = self.client(client) else { return };
        if due + TICK > now {
            self.clock.at(due + TICK, Due::AnswerDue(key));
        } else if self.clients[index].is_behind() {
            // The answer may be among the unread messages of the client.
            self.clock.after(Duration::from_millis(100), Due::AnswerDue(key));
        } else {
            self.record(&Fact::Overdue(key));
        }
    }

    /// Over HTTP, a request that was never sent waits no longer than `timeouts.recovery`.
    pub(super) fn recovery_ends(&mut self, key: Key) {
        let record = self.oracle.of(key);
        let unsent = record.is_open() && record.whole == 0;
        let unread = self.client(record.client).is_some_and(|index| self.clients[index].is_behind());
        if unsent && !unread && !self.oracle.is_gone(record.client) && self.finished.is_none() {
            self.record(&Fact::Overdue(key));
        }
    }

    /// Disconnects a client.
    pub fn client_disconnects(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.state == ClientState::Gone {
            return;
        }
        client.state = ClientState::Gone;
        client.outbox.clear();
        let id = client.id;
        self.oracle.readers.entry(id).or_default().gone = true;
        self.record(&Fact::ClientLeft(id));
        self.send_input(Input::ClientLost { client: id });
    }

    /// Lets a client read again.
    pub fn client_resumes(&mut self, index: usize) {
        self.clients[index].reads = true;
        self.write_client(index);
    }
}
