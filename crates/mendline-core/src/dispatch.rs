//! What the machines say to each other.
//!
//! A client's conversation and an upstream never call each other; they put messages here, and the engine carries them until
//! none is left. The words are neutral: neither side has to know which era or transport the other speaks.

use std::collections::VecDeque;

use mendline_wire::{Id, Message, Span};

use crate::port::{ClientId, LinkId, UpstreamId};
use crate::reason::RefusalReason;
use crate::slab::Key;
use crate::words::Failure;

/// From a client's conversation to an upstream.
#[derive(Debug)]
pub enum UpstreamCommand {
    /// A client has come that talks to this upstream.
    Open { client: ClientId },
    /// Make this call.
    Call { client: ClientId, request: Key, message: Message },
    /// Nobody waits for this call any more; `message` is the client's own notification.
    Cancel { client: ClientId, request: Key, message: Message },
    /// The client's answer to a request of the server.
    Reply { link: LinkId, id: Id, message: Message },
    /// We answer a request of the server ourselves, because the client cannot.
    Decline { link: LinkId, id: Id, why: RefusalReason },
    /// The client's progress on a request of the server, with the server's own token.
    Progress { link: LinkId, token: Vec<u8>, at: Span, message: Message },
    /// Any other notification.
    Notice { message: Message },
    /// The client has gone; what it asked for is of no use to anyone.
    Close { client: ClientId },
}

/// From an upstream to a client's conversation.
#[derive(Debug)]
pub enum ClientEvent {
    /// The upstream's answer.
    Answer { request: Key, message: Message },
    /// No answer could be had; this is why.
    Fail { request: Key, failure: Box<Failure> },
    /// The server ended this request by a cancellation of its own, with this notification.
    Ended { request: Key, at: Span, message: Message },
    /// The server reports progress; the token stands at `at`.
    Progress { request: Key, at: Span, message: Message },
    /// The call waits for its server; progress of our own says so.
    Reconnecting { request: Key, progress: f64, words: String },
    /// The server asks the client something.
    ServerRequest { link: LinkId, message: Message },
    /// The server no longer wants an answer to what it asked.
    Withdraw { link: LinkId, at: Span, message: Message },
    /// A link is over, and with it everything that was asked over it.
    LinkGone { link: LinkId },
    /// A notification for this client; one that belongs to a subscription carries its id at `at`.
    Notice { message: Message, subscription: Option<(Key, Span)> },
}

/// The commands under way.
#[derive(Debug, Default)]
pub struct Dispatch {
    pub to_upstream: VecDeque<(UpstreamId, UpstreamCommand)>,
    pub to_client: VecDeque<(ClientId, ClientEvent)>,
}
