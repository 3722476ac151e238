//! The allowed differences between a conversation through Mendline and the same one without it.
//!
//! The list is closed: every other byte of every line is equal. Mendline changes only *ids*: a request needs an id that
//! is unique on its pipe, and on each side Mendline chooses it. An id occurs in several places (the answer repeats it,
//! a cancellation refers to it), so the rows below form families, and within a family one id always becomes one other
//! id. The tests check that this is a bijection.
//!
//! The rows control the comparison in [`crate::compare`]. `PROMISE.md` quotes the table.

use crate::transcript::Direction;

/// The side of Mendline on which a pipe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Between the client and Mendline.
    Client,
    /// Between Mendline and the server.
    Server,
}

/// A family of ids: an id has the same meaning wherever it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The request ids of the client.
    ClientRequest,
    /// The progress tokens of the client.
    ClientProgress,
    /// The request ids of the server.
    ServerRequest,
    /// The progress tokens of the server.
    ServerProgress,
}

/// The messages of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// All requests.
    Requests,
    /// All responses, results and errors alike.
    Responses,
    /// All notifications.
    Notifications,
    /// The notifications of one method.
    Notification(&'static str),
}

/// The eras in which a row occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eras {
    /// In both eras.
    Always,
    /// Only in the legacy era, in which servers send requests to their clients.
    InLegacy,
    /// Only in the modern era, in which subscriptions are requests.
    InModern,
}

/// One place where the two conversations may differ.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The side of Mendline on which the id differs.
    pub side: Side,
    /// The direction of the message.
    pub direction: Direction,
    /// The messages that contain it.
    pub messages: Messages,
    /// The path of the field, from the outermost object inwards.
    pub field: &'static [&'static str],
    /// The family of the id.
    pub family: Family,
    /// The eras in which it occurs.
    pub eras: Eras,
    /// The reason.
    pub why: &'static str,
}

/// The complete list. In each place is an integer that Mendline chooses.
pub static DIFFERENCES: [Difference; 12] = [
    Difference {
        side: Side::Server,
        direction: Direction::Up,
        messages: Messages::Requests,
        field: &["id"],
        family: Family::ClientRequest,
        eras: Eras::Always,
        why: "an attempt has a name of its own, so that a late answer to an earlier attempt is recognised",
    },
    Difference {
        side: Side::Server,
        direction: Direction::Down,
        messages: Messages::Responses,
        field: &["id"],
        family: Family::ClientRequest,
        eras: Eras::Always,
        why: "the server answers by the name that it was given; the client receives its own name, as it was written",
    },
    Difference {
        side: Side::Server,
        direction: Direction::Up,
        messages: Messages::Notification("notifications/cancelled"),
        field: &["params", "requestId"],
        family: Family::ClientRequest,
        eras: Eras::Always,
        why: "the server knows the request by the other name",
    },
    Difference {
        side: Side::Server,
        direction: Direction::Down,
        messages: Messages::Notifications,
        field: &["params", "_meta", "io.modelcontextprotocol/subscriptionId"],
        family: Family::ClientRequest,
        eras: Eras::InModern,
        why: "a subscription is called by the id of the request that opened it",
    },
    Difference {
        side: Side::Server,
        direction: Direction::Down,
        messages: Messages::Responses,
        field: &["result", "_meta", "io.modelcontextprotocol/subscriptionId"],
        family: Family::ClientRequest,
        eras: Eras::InModern,
        why: "a subscription is called by the id of the request that opened it",
    },
    Difference {
        side: Side::Server,
        direction: Direction::Up,
        messages: Messages::Requests,
        field: &["params", "_meta", "progressToken"],
        family: Family::ClientProgress,
        eras: Eras::Always,
        why: "progress of an earlier attempt must not be taken for progress of this one",
    },
    Difference {
        side: Side::Server,
        direction: Direction::Down,
        messages: Messages::Notification("notifications/progress"),
        field: &["params", "progressToken"],
        family: Family::ClientProgress,
        eras: Eras::Always,
        why: "the server reports under the token that it was given; the client receives its own token, as it was written",
    },
    Difference {
        side: Side::Client,
        direction: Direction::Down,
        messages: Messages::Requests,
        field: &["id"],
        family: Family::ServerRequest,
        eras: Eras::InLegacy,
        why: "a server that was started anew counts from the beginning again; the client must not see a name twice",
    },
    Difference {
        side: Side::Client,
        direction: Direction::Up,
        messages: Messages::Responses,
        field: &["id"],
        family: Family::ServerRequest,
        eras: Eras::InLegacy,
        why: "the client answers by the name that it was given; the server receives its own name, as it was written",
    },
    Difference {
        side: Side::Client,
        direction: Direction::Down,
        messages: Messages::Notification("notifications/cancelled"),
        field: &["params", "requestId"],
        family: Family::ServerRequest,
        eras: Eras::InLegacy,
        why: "the client knows the request by the other name",
    },
    Difference {
        side: Side::Client,
        direction: Direction::Down,
        messages: Messages::Requests,
        field: &["params", "_meta", "progressToken"],
        family: Family::ServerProgress,
        eras: Eras::InLegacy,
        why: "a server that was started anew uses its tokens again; progress must not reach another request than was meant",
    },
    Difference {
        side: Side::Client,
        direction: Direction::Up,
        messages: Messages::Notification("notifications/progress"),
        field: &["params", "progressToken"],
        family: Family::ServerProgress,
        eras: Eras::InLegacy,
        why: "the client reports under the token that it was given; the server receives its own token, as it was written",
    },
];

/// Lines that Mendline does not forward, because their receiver has cancelled the request.
///
/// They are removed from both transcripts before a comparison: how many of them a peer still writes before it gets the
/// cancellation is a race between the two peers, with and without Mendline.
#[derive(Clone, Copy, Debug)]
pub struct Omission {
    /// The lines that are not forwarded.
    pub what: &'static str,
    /// The reason.
    pub why: &'static str,
}

/// The complete list of omissions; [`crate::cancelled_requests`] implements it.
pub const OMISSIONS: [Omission; 3] = [
    Omission {
        what: "the answer to a request that the client has cancelled",
        why: "both eras tell the client to ignore it, and a late answer could meet a new request of the same name",
    },
    Omission { what: "progress of a request that the client has cancelled", why: "the token is no longer in use" },
    Omission {
        what: "the client's answer to a question that the server has taken back, and progress on it",
        why: "the server no longer waits for it",
    },
];
