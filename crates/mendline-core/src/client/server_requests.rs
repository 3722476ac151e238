//! The requests of servers that wait for an answer of this client.
//!
//! In the legacy era a server may request a sample, user input, the roots or a ping from its client. Each such request
//! goes to the client under a number of ours, because two servers, or two processes of one server, may use the same id.
//! When the link of a request is gone, the request is withdrawn and the client receives a cancellation.

use mendline_wire::{Id, Message, Method, Patch, Span, Spliced};

use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::UpstreamCommand;
use crate::event::{Dropped, Event};
use crate::port::{ClientId, LinkId, StreamId};
use crate::reason::RefusalReason;
use crate::slab::{Key, Slab};
use crate::words;

/// One request of a server.
#[derive(Debug)]
struct ServerRequest {
    link: LinkId,
    /// The stream that carried it to the client.
    stream: StreamId,
    id: Id,
    token: Option<Vec<u8>>,
}

/// The open requests.
#[derive(Debug, Default)]
pub struct ServerRequests {
    open: Slab<ServerRequest>,
}

impl ServerRequests {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Registers a server's request and returns the message for the client.
    pub fn open(
        &mut self,
        client: ClientId,
        link: LinkId,
        stream: StreamId,
        message: &Message,
        cx: &mut Cx<'_>,
    ) -> Option<Spliced> {
        let id = Id::from_raw(message.id()?);
        let at = message.id_span()?;
        let token = message.progress_token();
        let server_request =
            ServerRequest { link, stream, id: id.clone(), token: token.map(|at| message.slice(at).to_vec()) };
        let key = if self.open.len() < defaults::SERVER_REQUESTS { self.open.insert(server_request) } else { None };
        let Some(key) = key else {
            cx.send_to_upstream(
                link.upstream,
                UpstreamCommand::Decline { link, id, why: RefusalReason::ServerRequests },
            );
            return None;
        };
        cx.emit(Event::ServerRequestForwarded { client, link, method: message.method() });
        let number = || Patch::number(key.number());
        let edits = [Some((at, number())), token.map(|at| (at, number()))];
        Some(Spliced::new(message.text().clone(), edits.into_iter().flatten()))
    }

    /// Forwards the client's answer to the server.
    pub fn answer(&mut self, client: ClientId, message: Message, cx: &mut Cx<'_>) -> Result<(), Dropped> {
        let key = message.id().and_then(|raw| Id::from_raw(raw).as_u64()).map(Key::from_number);
        let Some(server_request) = key.and_then(|key| self.open.remove(key)) else { return Err(Dropped::StaleReply) };
        cx.emit(Event::ServerRequestAnswered { client, link: server_request.link });
        cx.send_to_upstream(
            server_request.link.upstream,
            UpstreamCommand::Reply { link: server_request.link, id: server_request.id, message },
        );
        Ok(())
    }

    /// Forwards the client's progress to the server.
    pub fn progress(&mut self, message: Message, cx: &mut Cx<'_>) -> Result<(), Dropped> {
        let found = message.progress_token().and_then(|at| {
            let key = Key::from_number(Id::from_raw(message.slice(at)).as_u64()?);
            let server_request = self.open.get(key)?;
            Some((at, server_request.link, server_request.token.clone()?))
        });
        let Some((at, link, token)) = found else { return Err(Dropped::StaleProgress) };
        cx.send_to_upstream(link.upstream, UpstreamCommand::Progress { link, token, at, message });
        Ok(())
    }

    /// Withdraws a request that its server cancelled. Returns the cancellation for the client, and its stream.
    pub fn withdraw(
        &mut self,
        client: ClientId,
        link: LinkId,
        at: Span,
        message: &Message,
        cx: &mut Cx<'_>,
    ) -> Option<(StreamId, Spliced)> {
        let raw = message.slice(at);
        let (key, found) = self
            .open
            .iter()
            .find(|(_, server_request)| server_request.link == link && server_request.id.as_bytes() == raw)?;
        let stream = found.stream;
        self.open.remove(key);
        cx.emit(Event::ServerRequestWithdrawn { client, link });
        Some((stream, Spliced::new(message.text().clone(), [(at, Patch::number(key.number()))])))
    }

    /// Withdraws all requests of a link that is gone. Returns the cancellations for the client, and their streams.
    pub fn withdraw_all(&mut self, client: ClientId, link: LinkId, cx: &mut Cx<'_>) -> Vec<(StreamId, Spliced)> {
        let mut notifications = Vec::new();
        for key in self.open.keys_by_age() {
            let is_of_link = |server_request: &&ServerRequest| server_request.link == link;
            if let Some(stream) = self.open.get(key).filter(is_of_link).map(|server_request| server_request.stream) {
                self.open.remove(key);
                cx.emit(Event::ServerRequestWithdrawn { client, link });
                let notification = words::cancelled(&Id::number(key.number()), "the server of this request has ended");
                notifications.push((stream, Spliced::whole(notification)));
            }
        }
        notifications
    }

    /// Declines all open requests, because the client cannot answer any more.
    pub fn decline_all(&mut self, cx: &mut Cx<'_>) {
        for key in self.open.keys_by_age() {
            if let Some(ServerRequest { link, id, .. }) = self.open.remove(key) {
                cx.send_to_upstream(
                    link.upstream,
                    UpstreamCommand::Decline { link, id, why: RefusalReason::ClientGone },
                );
            }
        }
    }

    /// The method of a dropped answer, for the event.
    pub const DROPPED_METHOD: Method = Method::None;
}
