//! What was seen of one conversation, from the client's end and from the server's.

use std::time::Duration;

use serde_json::Value;

use super::conversation::Wire;
use super::site::{AnswerMode, Variant};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Initialize,
    Read,
    Unsafe,
}

impl Role {
    /// The id of the request.
    pub fn id(self) -> &'static str {
        match self {
            Role::Initialize => "handshake",
            Role::Read => "read",
            Role::Unsafe => "unsafe",
        }
    }
}

/// One request and everything that came back with its id.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    pub role: Role,
    /// The fault had struck before it was made.
    pub after_fault: bool,
    /// The client said that it does not want the answer any more.
    pub cancelled: bool,
    pub took: Option<Duration>,
    pub answers: Vec<Value>,
}

/// What was seen of one conversation.
#[derive(Clone, Debug)]
pub struct Observations {
    pub wire: Wire,
    pub mode: AnswerMode,
    pub variant: Variant,
    pub requests: Vec<RequestRecord>,
    /// What the server asked the client.
    pub questions: Vec<Value>,
    /// Runs of the tool that must not run twice.
    pub runs: usize,
    /// How often a response was resumed.
    pub resumed: usize,
    /// How many bytes had gone up whenever the server had something whole and did not do it.
    pub rejected: Vec<usize>,
    pub server_knows_of_cancel: bool,
    pub struck: bool,
    /// How long the driver took to end after its client had left.
    pub ended: Option<Duration>,
    pub up: (usize, Vec<usize>),
    pub down: (usize, Vec<usize>),
    pub events: Vec<String>,
}

impl Observations {
    /// What is seen of a conversation that has not begun.
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

    /// Whether the client waits for an answer.
    pub fn waits(&self) -> bool {
        self.requests.iter().any(|request| request.took.is_none() && !request.cancelled)
    }

    /// The client makes these requests.
    pub fn ask(&mut self, roles: &[Role], after_fault: bool) {
        let request = |&role| RequestRecord { role, after_fault, cancelled: false, took: None, answers: Vec::new() };
        self.requests.extend(roles.iter().map(request));
    }

    /// The client loses patience; says whether there was still something to cancel.
    pub fn cancel(&mut self, role: Role) -> bool {
        let open = self.requests.iter_mut().find(|request| request.role == role && request.took.is_none());
        open.map(|request| request.cancelled = true).is_some()
    }

    /// Notes a line that came to the client. If it is a question, gives its id.
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
