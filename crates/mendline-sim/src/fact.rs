//! What the world tells its checkers.
//!
//! Facts are told in the order in which they happen, after the oracle has noted them. A checker keeps whatever it needs of
//! them; it never looks into the engine.

use mendline_core::port::Signal;
use mendline_core::{ClientId, LinkId, Moment};
use mendline_wire::Message;

use crate::machine::{Act, Heard, Load, Standing};
use crate::oracle::{Key, Verdict};

/// The place of a message among all that one child wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Which child of its upstream, in the order of dials.
    pub dial: u32,
    /// Which of its messages.
    pub line: u32,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    /// The engine was given a request.
    Arrived(Key),
    /// The engine handed out a message for a child.
    Handed {
        /// Which child.
        link: LinkId,
        /// The message.
        message: &'a Message,
        /// The request in it, if it is a client's.
        key: Option<Key>,
    },
    /// A child's stdin accepted all of a request.
    Accepted {
        /// Which child.
        link: LinkId,
        /// Which request.
        key: Key,
    },
    /// A child read a request.
    Read {
        /// Which child.
        link: LinkId,
        /// Which request.
        key: Key,
        /// As it came there.
        message: &'a Message,
    },
    /// A server did what a request asks for.
    Ran {
        /// Which child.
        link: LinkId,
        /// Which request.
        key: Key,
    },
    /// A child wrote a notification that is meant for its client.
    Noticed {
        /// Which child.
        link: LinkId,
        /// Its place.
        stamp: Stamp,
    },
    /// A child found something wrong with what it was sent.
    Complained {
        /// Which child.
        link: LinkId,
        /// What is wrong, as a sentence.
        words: &'a str,
    },
    /// A client read an answer to one of its requests.
    Answered {
        /// Which request.
        key: Key,
        /// What it says.
        verdict: &'a Verdict,
        /// Its place, if a server wrote it.
        stamp: Option<Stamp>,
    },
    /// A client read an answer that it is not waiting for.
    Surplus {
        /// Which client.
        client: ClientId,
        /// The message.
        message: &'a Message,
    },
    /// A client read progress.
    Progressed {
        /// Which client.
        client: ClientId,
        /// The request that the token names, if there is one.
        named: Option<Key>,
        /// The request that the server meant.
        meant: Option<Key>,
        /// Its place.
        stamp: Option<Stamp>,
    },
    /// A client read another notification.
    Told {
        /// Which client.
        client: ClientId,
        /// Its place, if a server wrote it.
        stamp: Option<Stamp>,
    },
    /// A client was asked something.
    Asked {
        /// Which client.
        client: ClientId,
        /// Its place.
        stamp: Option<Stamp>,
    },
    /// A client found something wrong with what it was sent.
    Objected {
        /// Which client.
        client: ClientId,
        /// What is wrong, as a sentence.
        words: &'a str,
    },
    /// A client reads no more.
    Left(ClientId),
    /// The engine asked for something.
    Wanted(&'a Act),
    /// The plan has no fault for this upstream.
    Unharmed(usize),
    /// Somebody asked for a new connection to this upstream by hand.
    ByHand(usize),
    /// A child runs.
    Started(LinkId),
    /// A child could not be started.
    NotStarted(LinkId),
    /// A child got a signal or the end of its stdin.
    Signalled(LinkId, Option<Signal>),
    /// A child died.
    Died(LinkId),
    /// A child is dead and the engine knows.
    Exited(LinkId),
    /// The engine said that something happened.
    Happened(&'a Heard),
    /// One step is over: every queue is carried as far as it goes.
    Settled {
        /// When the engine wants to be woken.
        wake: Option<Moment>,
        /// How much it says that it holds.
        load: Load,
    },
    /// How an upstream stands by the fold of the events.
    Stands {
        /// Which.
        upstream: usize,
        /// How.
        standing: &'a Standing,
    },
    /// All faults are over.
    Healed,
    /// A client's first call after the healing went well.
    Recovered(ClientId),
    /// A client's first call after the healing did not go well in time.
    StillDown(ClientId),
    /// A request passed the moment by which it had to be answered, although its client was ready to read.
    Overdue(Key),
    /// The engine was told to stop.
    Stopped,
    /// All clients are closing their ends: what runs may finish, then it is over.
    Closing,
    /// The world ended without the engine saying that it is finished.
    NeverFinished,
    /// The rules of `port.rs`, or plain sense, were broken in a way that the shell itself notices.
    Misbehaved(&'a str),
}
