//! What was seen of one conversation, from the client's end and from the server's.

use std::time::Duration;

use serde_json::Value;

use super::conversation::Wire;
use super::site::{Manner, Twist};

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
pub struct Asked {
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
pub struct Seen {
    pub wire: Wire,
    pub manner: Manner,
    pub twist: Twist,
    pub asked: Vec<Asked>,
    /// What the server asked the client.
    pub questions: Vec<Value>,
    /// Runs of the tool that must not run twice.
    pub runs: usize,
    /// How often a response was resumed.
    pub resumed: usize,
    /// How many bytes had gone up whenever the server had something whole and did not do it.
    pub turned_away: Vec<usize>,
    pub server_knows_of_cancel: bool,
    pub struck: bool,
    /// How long the driver took to end after its client had left.
    pub ended: Option<Duration>,
    pub up: (usize, Vec<usize>),
    pub down: (usize, Vec<usize>),
    pub events: Vec<String>,
}

impl Seen {
    /// What is seen of a conversation that has not begun.
    pub fn nothing(wire: Wire, manner: Manner, twist: Twist) -> Seen {
        Seen {
            wire,
            manner,
            twist,
            asked: Vec::new(),
            questions: Vec::new(),
            runs: 0,
            resumed: 0,
            turned_away: Vec::new(),
            server_knows_of_cancel: false,
            struck: false,
            ended: None,
            up: (0, Vec::new()),
            down: (0, Vec::new()),
            events: Vec::new(),
        }
    }

    pub fn of(&self, role: Role) -> Option<&Asked> {
        self.asked.iter().find(|asked| asked.role == role)
    }

    pub fn was_initialized(&self) -> bool {
        let answer = self.of(Role::Initialize).and_then(|asked| asked.answers.first());
        answer.is_some_and(|answer| answer.get("result").is_some())
    }

    /// Whether the client waits for an answer.
    pub fn waits(&self) -> bool {
        self.asked.iter().any(|asked| asked.took.is_none() && !asked.cancelled)
    }

    /// The client makes these requests.
    pub fn ask(&mut self, roles: &[Role], after_fault: bool) {
        let asked = |&role| Asked { role, after_fault, cancelled: false, took: None, answers: Vec::new() };
        self.asked.extend(roles.iter().map(asked));
    }

    /// The client loses patience; says whether there was still something to cancel.
    pub fn cancel(&mut self, role: Role) -> bool {
        let open = self.asked.iter_mut().find(|asked| asked.role == role && asked.took.is_none());
        open.map(|asked| asked.cancelled = true).is_some()
    }

    /// Notes a line that came to the client. If it is a question, gives its id.
    pub fn note(&mut self, line: &str, took: Duration) -> Option<Value> {
        let message: Value = serde_json::from_str(line).unwrap();
        if message.get("method").is_some() {
            let id = message.get("id").cloned()?;
            self.questions.push(message);
            return Some(id);
        }
        if let Some(asked) = self.asked.iter_mut().find(|asked| message["id"] == asked.role.id()) {
            asked.took.get_or_insert(took);
            asked.answers.push(message);
        }
        None
    }
}
