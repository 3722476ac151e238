//! Commands and events between client sessions and upstreams.
//!
//! A client session and an upstream never call each other. They queue commands and events here, and the engine
//! dispatches them until the queues are empty. The types are neutral: neither side knows the era or the transport of
//! the other.

use std::collections::VecDeque;

use mendline_wire::{Id, Message, Span};

use crate::port::{ClientId, LinkId, UpstreamId};
use crate::reason::RefusalReason;
use crate::request::ClientRequest;
use crate::slab::Key;
use crate::words::Failure;

/// A command of a client session to an upstream.
#[derive(Debug)]
pub enum UpstreamCommand {
    /// A client of this upstream has connected. Mendline makes the handshake of one that has made it before.
    Open { client: ClientId, is_resumed: bool },
    /// Make this call.
    Call { client: ClientId, request: Key, call: ClientRequest },
    /// Report the state of the upstream: the request is about Mendline's own tool or resource.
    OwnStatus { client: ClientId, request: Key, call: ClientRequest },
    /// The client cancelled this call; `message` is its notification.
    Cancel { client: ClientId, request: Key, message: Message },
    /// The client's answer to a request of the server.
    Reply { link: LinkId, id: Id, message: Message },
    /// Mendline declines a request of the server, because the client cannot answer it.
    Decline { link: LinkId, id: Id, why: RefusalReason },
    /// The client's progress on a request of the server, with the server's own token.
    Progress { link: LinkId, token: Vec<u8>, at: Span, message: Message },
    /// The client has completed its handshake.
    Initialized { client: ClientId, message: Message },
    /// Any other notification.
    Notice { message: Message },
    /// The client is gone; its calls are abandoned.
    Close { client: ClientId },
}

/// An event of an upstream for a client session.
#[derive(Debug)]
pub enum ClientEvent {
    /// The upstream's answer.
    Answer { request: Key, message: Message },
    /// The call failed.
    Fail { request: Key, failure: Box<Failure> },
    /// The server cancelled this request with this notification.
    Ended { request: Key, at: Span, message: Message },
    /// The server reports progress; the token is at `at`.
    Progress { request: Key, at: Span, message: Message },
    /// The call waits for its server; Mendline reports this as progress.
    Reconnecting { request: Key, progress: f64, words: String },
    /// A request of the server for the client, and the client's request that caused it, if it is known.
    ServerRequest { link: LinkId, cause: Option<Key>, message: Message },
    /// The server cancelled its request. If this is not the only client, it may be that of another one.
    Withdraw { link: LinkId, at: Span, message: Message, is_only: bool },
    /// A link is gone, and with it all server requests that came over it.
    LinkGone { link: LinkId },
    /// A notification for this client.
    Notice { message: Message, about: NoticeAbout },
}

/// What a notification is about, which decides about its stream.
#[derive(Clone, Copy, Debug)]
pub enum NoticeAbout {
    /// The session.
    Session,
    /// This request of the client: it came with the response to it.
    Request(Key),
    /// This subscription, whose id is at the span.
    Subscription(Key, Span),
}

/// The queues of commands and events.
#[derive(Debug, Default)]
pub struct Dispatch {
    pub to_upstream: VecDeque<(UpstreamId, UpstreamCommand)>,
    pub to_client: VecDeque<(ClientId, ClientEvent)>,
}
