//! The observations of one conversation, at the client and at the server.

use std::time::Duration;

use serde_json::Value;

use super::conversation::Wire;
use super::site::{AnswerMode, Variant};

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Initialize,
    Read,
    Unsafe,
}

impl Role {
    /// Returns the id of the request.
    pub fn id(self) -> &'static str {
        match self {
            Role::Initialize => "handshake",
            Role::Read => "read",
            Role::Unsafe => "unsafe",
        }
    }
}

/// One request and all messages with its id.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    pub role: Role,
    /// The fault had happened before it was made.
    pub after_fault: bool,
    /// The client has cancelled it.
    pub cancelled: bool,
    pub took: Option<Duration>,
    pub answers: Vec<Value>,
}

/// The observations of one conversation.
#[derive(Clone, Debug)]
pub struct Observations {
    pub wire: Wire,
    pub mode: AnswerMode,
    pub variant: Variant,
    pub requests: Vec<RequestRecord>,
    /// The requests of the server to the client.
    pub questions: Vec<Value>,
    /// The number of runs of the tool that must not run twice.
    pub runs: usize,
    /// The number of resumptions of a response.
    pub resumed: usize,
    /// The number of bytes that had gone up at each complete request that the server rejected.
    pub rejected: Vec<usize>,
    pub server_knows_of_cancel: bool,
    pub struck: bool,
    /// The time that the driver took after its client had left.
    pub ended: Option<Duration>,
    pub up: (usize, Vec<usize>),
    pub down: (usize, Vec<usize>),
    pub events: Vec<String>,
}

impl Observations {
    /// The observations before a conversation.
    pub fn nothing(wire: Wire, mode: AnswerMode, variant: Variant) -> Observations {
        Observations {
            wire,
            mode,
            variant,
            requests: Vec::new(),
            questions: Vec::new(),
            runs: 0,
            resumed: 0,
            rejected: Vec::new(),
            server_knows_of_cancel: false,
            struck: false,
            ended: None,
            up: (0, Vec::new()),
            down: (0, Vec::new()),
            events: Vec::new(),
        }
    }

    pub fn of(&self, role: Role) -> Option<&RequestRecord> {
        self.requests.iter().find(|request| request.role == role)
    }

    pub fn was_initialized(&self) -> bool {
        let answer = self.of(Role::Initialize).and_then(|request| request.answers.first());
        answer.is_some_and(|answer| answer.get("result").is_some())
    }

    /// Returns true if the client waits for an answer.
    pub fn waits(&self) -> bool {
        self.requests.iter().any(|request| request.took.is_none() && !request.cancelled)
    }

    /// Records requests of the client.
    pub fn ask(&mut self, roles: &[Role], after_fault: bool) {
        let request = |&role| RequestRecord { role, after_fault, cancelled: false, took: None, answers: Vec::new() };
        self.requests.extend(roles.iter().map(request));
    }

    /// Records a cancellation. Returns false if the request was answered already.
    pub fn cancel(&mut self, role: Role) -> bool {
        let open = self.requests.iter_mut().find(|request| request.role == role && request.took.is_none());
        open.map(|request| request.cancelled = true).is_some()
    }

    /// Records a line for the client. Returns the id of a server request.
    pub fn note(&mut self, line: &str, took: Duration) -> Option<Value> {
        let message: Value = serde_json::from_str(line).unwrap();
        if message.get("method").is_some() {
            let id = message.get("id").cloned()?;
            self.questions.push(message);
            return Some(id);
        }
        if let Some(request) = self.requests.iter_mut().find(|request| message["id"] == request.role.id()) {
            request.took.get_or_insert(took);
            request.answers.push(message);
        }
        None
    }
}
