//! The id of a session over HTTP, and what is known about the session.

use std::borrow::Cow;
use std::sync::Arc;

use mendline_wire::{Message, headers};

/// The current session of an upstream over HTTP.
#[derive(Debug, Default)]
pub struct SessionId {
    id: Option<Arc<str>>,
    /// The id in the response head of a handshake, until the handshake is answered.
    early_id: Option<Arc<str>>,
    version: Option<Arc<str>>,
    /// The number of the session, counted by lost ones.
    number: u32,
    /// The number of the session whose loss was confirmed last.
    lost: Option<u32>,
    /// The session has answered a request besides its handshake.
    has_answered: bool,
    refused_pings: RefusedPings,
}

/// The value of a refused ping as evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RefusedPings {
    #[default]
    None,
    /// A ping was refused in this session.
    In(u32),
    /// A ping was refused in a session that answered a call afterwards: refused pings prove nothing.
    InLiveSession,
}

impl SessionId {
    /// The id, after the handshake.
    pub fn id(&self) -> Option<&Arc<str>> {
        self.id.as_ref()
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// The headers for the session and the version, after the handshake.
    pub fn headers(&self) -> Vec<(Cow<'static, str>, Arc<str>)> {
        let mut headers = Vec::with_capacity(2);
        let id = self.id.clone().or_else(|| self.early_id.clone());
        headers.extend(id.map(|id| (headers::SESSION_ID.into(), id)));
        headers.extend(self.version.clone().map(|version| (headers::PROTOCOL_VERSION.into(), version)));
        headers
    }

    /// Records that a handshake is sent.
    pub fn begin(&mut self) {
        self.early_id = None;
    }

    /// Records the id in the response head of a handshake: requests of the server before the answer belong to it.
    pub fn note_early(&mut self, id: &str) {
        self.early_id = Some(id.into());
    }

    /// Uses the session of a handshake that was answered like this.
    pub fn adopt(&mut self, id: Option<Arc<str>>, answer: &Message) {
        self.id = id;
        (self.early_id, self.has_answered) = (None, false);
        let version = answer.get_str(&["protocolVersion"]);
        // Revisions before 2025-06-18 have no such header.
        self.version = version.filter(|version| version.as_ref() >= "2025-06-18").map(Into::into);
    }

    /// Ends the session. The next one has another number.
    pub fn end(&mut self) {
        (self.id, self.early_id, self.version, self.has_answered) = (None, None, None, false);
        self.number += 1;
    }

    /// Records that the loss of this session is confirmed.
    pub fn note_lost(&mut self, number: u32) {
        self.lost = Some(number);
    }

    /// Returns whether this is the session whose loss was confirmed last.
    pub fn was_lost(&self, number: u32) -> bool {
        self.lost == Some(number)
    }

    /// Records an answer in the current session, other than that of the handshake.
    pub fn note_answer(&mut self) {
        self.has_answered = true;
        if self.refused_pings == RefusedPings::In(self.number) {
            self.refused_pings = RefusedPings::InLiveSession;
        }
    }

    /// Returns whether the session has answered a request besides its handshake.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Records a refused ping in the session of this number.
    pub fn note_refused_ping(&mut self, number: u32) {
        if number == self.number && self.refused_pings != RefusedPings::InLiveSession {
            self.refused_pings = RefusedPings::In(number);
        }
    }

    /// Returns whether the server refuses pings in live sessions.
    pub fn refuses_pings(&self) -> bool {
        self.refused_pings == RefusedPings::InLiveSession
    }

    /// Forgets what is known about refused pings: another server answers.
    pub fn forget_pings(&mut self) {
        self.refused_pings = RefusedPings::None;
    }
}
