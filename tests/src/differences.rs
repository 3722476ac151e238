//! What may differ between a conversation through Mendline and the same conversation without it.
//!
//! The list is closed: every byte of every line that is not named here is the same. It is short because Mendline changes only
//! *names*: a request needs a name that is unique on its pipe, and on each side of Mendline it is Mendline that gives it. A
//! name stands in several places (the answer repeats it, a cancellation refers to it), so the rows below come in families,
//! and within a family one name always becomes one other name. That this is a bijection is checked, not assumed.
//!
//! The rows drive the comparison in [`crate::compare`]: what is not in this table fails the tests. `PROMISE.md` quotes it.

use crate::transcript::Direction;

/// Which of Mendline's two sides a pipe is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Between the client and Mendline.
    Client,
    /// Between Mendline and the server.
    Server,
}

/// A family of names: each name in it keeps its meaning wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// What the client calls its requests.
    ClientRequest,
    /// What the client calls the progress of its requests.
    ClientProgress,
    /// What the server calls its requests.
    ServerRequest,
    /// What the server calls the progress of its requests.
    ServerProgress,
}

/// The messages that a row is about.
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

/// When a row can be seen at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eras {
    /// In both eras.
    Always,
    /// Only in the legacy era, in which servers ask their clients by requests.
    InLegacy,
    /// Only in the modern era, in which subscriptions are requests.
    InModern,
}

/// One place where the two conversations may differ.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// On which side of Mendline another name is seen than without it.
    pub side: Side,
    /// Which way the message goes.
    pub direction: Direction,
    /// In which messages.
    pub messages: Messages,
    /// Where in the message, from its outermost object inwards.
    pub field: &'static [&'static str],
    /// Which names stand there.
    pub family: Family,
    /// In which eras.
    pub eras: Eras,
    /// Why it cannot stay as it was.
    pub why: &'static str,
}

/// The whole list. In each place stands a whole number of Mendline's own choice.
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

/// Lines that Mendline does not pass on, because the one that they were meant for has said that it does not want them.
///
/// They are left out of both transcripts before the comparison: how many of them a peer still writes before a cancellation
/// reaches it is a race between the two peers, with and without Mendline.
#[derive(Clone, Copy, Debug)]
pub struct Omission {
    /// What is not passed on.
    pub what: &'static str,
    /// Why not.
    pub why: &'static str,
}

/// The whole list of what is left out; [`crate::leftovers`] is the same in code.
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
