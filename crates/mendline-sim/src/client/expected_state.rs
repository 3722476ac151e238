//! The state that a client relies on: session state that it has set, and lists that it has read.
//!
//! A client requests one change at a time, so the last confirmed value is the current one. After an unconfirmed change
//! the client relies on neither value. For a list it knows the edition that it has read, and whether it was notified of
//! a change since.

use std::collections::BTreeMap;

use mendline_wire::Method;

use crate::oracle::Key;

/// A change of session state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The log level.
    Level(String),
    /// A subscription to this resource, or its end.
    Subscription(String, bool),
}

/// A list that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRead {
    /// Its edition.
    pub edition: u32,
    /// The client was notified of a change since.
    pub stale: bool,
}

/// The state that a client relies on.
#[derive(Clone, Debug, Default)]
pub struct ExpectedState {
    /// The log level; `None` if unknown.
    pub level: Option<Option<String>>,
    /// Its subscriptions; `None` for one whose state is unknown.
    pub subscriptions: BTreeMap<String, Option<bool>>,
    /// The lists that it has read, by method.
    pub lists: Vec<(Method, ListRead)>,
    under_way: Option<(Key, Change)>,
    ever_chose: bool,
}

impl ExpectedState {
    /// Returns whether a change is in progress; the next one has to wait.
    pub fn is_changing(&self) -> bool {
        self.under_way.is_some()
    }

    /// Returns the level that it relies on; `Some(None)` if it never set one.
    pub fn level(&self) -> Option<Option<&str>> {
        if self.ever_chose { self.level.as_ref().map(Option::as_deref) } else { Some(None) }
    }

    /// Starts a change.
    pub fn begin_change(&mut self, key: Key, change: Change) {
        match &change {
            Change::Level(_) => (self.level, self.ever_chose) = (None, true),
            Change::Subscription(uri, _) => drop(self.subscriptions.insert(uri.clone(), None)),
        }
        self.under_way = Some((key, change));
    }

    /// Processes the answer to a request.
    pub fn settle(&mut self, key: Key, went_well: bool) {
        match self.under_way.take_if(|(it, _)| *it == key) {
            Some((_, Change::Level(level))) if went_well => self.level = Some(Some(level)),
            Some((_, Change::Subscription(uri, wanted))) if went_well => {
                self.subscriptions.insert(uri, Some(wanted));
            }
            _ => {}
        }
    }

    /// Processes the cancellation of a request; its outcome stays unknown.
    pub fn give_up(&mut self, key: Key) {
        self.settle(key, false);
    }

    /// Processes the answer to a list request.
    pub fn read_list(&mut self, method: Method, body: &[u8]) {
        if !matches!(method, Method::ToolsList | Method::PromptsList | Method::ResourcesList) {
            return;
        }
        self.lists.retain(|(it, _)| *it != method);
        self.lists.push((method, ListRead { edition: edition_in(body), stale: false }));
    }

    /// Processes a notification that a list has changed.
    pub fn notice_received(&mut self, notice: Method) {
        let meant = match notice {
            Method::ToolsListChanged => Method::ToolsList,
            Method::PromptsListChanged => Method::PromptsList,
            Method::ResourcesListChanged => Method::ResourcesList,
            _ => return,
        };
        self.lists.iter_mut().filter(|(it, _)| *it == meant).for_each(|(_, read)| read.stale = true);
    }
}

/// Returns the edition that a list names.
fn edition_in(body: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(body);
    let digits =
        text.split("edition ").nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
