//! A request as the core sees it: parsed once, where it enters.
//!
//! The wire has method names, and two eras in which the same request looks different. Behind the entry of a client's
//! message nothing asks for either: decisions use [`Op`] and [`Era`], and the message itself only carries the bytes and
//! the parameters.

use mendline_wire::{Message, Method, meta};

/// The era of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// A session begins with `initialize`.
    Legacy,
    /// Every request names its revision; there is no session.
    Modern,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `initialize`
    Initialize,
    /// `server/discover`
    Discover,
    /// A list, such as `tools/list`.
    List(ListKind),
    /// `tools/call`
    CallTool,
    /// `resources/read`
    Read,
    /// `prompts/get`
    GetPrompt,
    /// `completion/complete`
    Complete,
    /// `subscriptions/listen`, which ends only on request
    Listen,
    /// `logging/setLevel`
    SetLevel,
    /// `resources/subscribe`
    Subscribe,
    /// `resources/unsubscribe`
    Unsubscribe,
    /// `tasks/get` or `tasks/list`
    ReadTasks,
    /// `tasks/cancel`
    CancelTask,
    /// `ping`
    Ping,
    /// Anything else.
    Other,
}

impl Op {
    /// The operation of a method.
    pub fn of(method: Method) -> Op {
        match method {
            Method::Initialize => Op::Initialize,
            Method::Discover => Op::Discover,
            Method::ToolsList => Op::List(ListKind::Tools),
            Method::PromptsList => Op::List(ListKind::Prompts),
            Method::ResourcesList => Op::List(ListKind::Resources),
            Method::ResourcesTemplatesList => Op::List(ListKind::Templates),
            Method::ToolsCall => Op::CallTool,
            Method::ResourcesRead => Op::Read,
            Method::PromptsGet => Op::GetPrompt,
            Method::CompletionComplete => Op::Complete,
            Method::SubscriptionsListen => Op::Listen,
            Method::LoggingSetLevel => Op::SetLevel,
            Method::ResourcesSubscribe => Op::Subscribe,
            Method::ResourcesUnsubscribe => Op::Unsubscribe,
            Method::TasksGet | Method::TasksList => Op::ReadTasks,
            Method::TasksCancel => Op::CancelTask,
            Method::Ping => Op::Ping,
            _ => Op::Other,
        }
    }

    /// The list that it reads.
    pub fn list(self) -> Option<ListKind> {
        match self {
            Op::List(kind) => Some(kind),
            _ => None,
        }
    }

    /// Returns whether it sets state in a session: the log level or a subscription.
    pub fn sets_state(self) -> bool {
        matches!(self, Op::SetLevel | Op::Subscribe | Op::Unsubscribe)
    }
}

/// A kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub const ALL: [ListKind; 4] = [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];

    pub fn method(self) -> Method {
        match self {
            ListKind::Tools => Method::ToolsList,
            ListKind::Prompts => Method::PromptsList,
            ListKind::Resources => Method::ResourcesList,
            ListKind::Templates => Method::ResourcesTemplatesList,
        }
    }

    /// The member of the answer that holds the entries.
    pub fn member(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resourceTemplates",
        }
    }

    /// The member of an entry that names it.
    pub fn name(self) -> &'static str {
        match self {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources => "uri",
            ListKind::Templates => "uriTemplate",
        }
    }

    /// The filter of a modern subscription for its changes.
    pub fn filter(self) -> &'static str {
        match self {
            ListKind::Tools => "toolsListChanged",
            ListKind::Prompts => "promptsListChanged",
            ListKind::Resources | ListKind::Templates => "resourcesListChanged",
        }
    }

    /// The notification of its changes.
    pub fn changed(self) -> Method {
        match self {
            ListKind::Tools => Method::ToolsListChanged,
            ListKind::Prompts => Method::PromptsListChanged,
            ListKind::Resources | ListKind::Templates => Method::ResourcesListChanged,
        }
    }

    /// The list that collects the notifications of its changes.
    pub fn reporting(self) -> ListKind {
        match self {
            ListKind::Templates => ListKind::Resources,
            kind => kind,
        }
    }

    /// The lists whose changes this notification reports.
    pub fn reported_by(notice: Method) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.into_iter().filter(move |kind| kind.changed() == notice)
    }
}

/// A request of a client, or one that Mendline makes itself.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub era: Era,
    pub op: Op,
    pub message: Message,
}

impl ClientRequest {
    /// Parses what decisions depend on.
    pub fn new(message: Message) -> ClientRequest {
        let era = if meta::is_modern(&message) { Era::Modern } else { Era::Legacy };
        ClientRequest { era, op: Op::of(message.method()), message }
    }

    /// Returns whether it is of the modern era.
    pub fn is_modern(&self) -> bool {
        self.era == Era::Modern
    }

    /// The method, for reports.
    pub fn method(&self) -> Method {
        self.message.method()
    }

    /// The name of the called tool; `None` if it calls none.
    pub fn tool(&self) -> Option<std::borrow::Cow<'_, str>> {
        if self.op == Op::CallTool { self.message.get_str(&["name"]) } else { None }
    }

    /// The name that a model knows: the tool's name, else the method.
    pub fn describe(&self) -> String {
        let what = self.tool().unwrap_or_else(|| self.message.method_name());
        // The name comes from outside and is quoted in texts, so its length is bounded.
        what.chars().take(100).collect()
    }

    /// The resource that it is about.
    pub fn uri(&self) -> Option<String> {
        self.message.get_str(&["uri"]).map(std::borrow::Cow::into_owned)
    }
}
