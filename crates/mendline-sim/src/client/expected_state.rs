//! What a client relies on: what it told its server to keep in mind, and what it has read of its lists.
//!
//! A client asks for one change at a time, as people do, so what it was told last is what holds. A change that was not
//! confirmed may have been made or not: then the client relies on neither. Of a list it knows which edition it has read, and
//! whether it was told since that there is another.

use std::collections::BTreeMap;

use mendline_wire::Method;

use crate::oracle::Key;

/// Something that the server is to keep in mind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Messages from this level on.
    Level(String),
    /// News of this resource, or none any more.
    Subscription(String, bool),
}

/// What was read of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRead {
    /// Which edition.
    pub edition: u32,
    /// It is said to have changed since.
    pub stale: bool,
}

/// What a client relies on.
#[derive(Clone, Debug, Default)]
pub struct ExpectedState {
    /// The log level; nothing if it does not know.
    pub level: Option<Option<String>>,
    /// Its subscriptions; nothing for one if it does not know.
    pub subscriptions: BTreeMap<String, Option<bool>>,
    /// The lists that it has read, by the method.
    pub lists: Vec<(Method, ListRead)>,
    under_way: Option<(Key, Change)>,
    ever_chose: bool,
}

impl ExpectedState {
    /// Whether a change is under way: another has to wait.
    pub fn is_changing(&self) -> bool {
        self.under_way.is_some()
    }

    /// The level that it relies on: none at all as long as it chose none.
    pub fn level(&self) -> Option<Option<&str>> {
        if self.ever_chose { self.level.as_ref().map(Option::as_deref) } else { Some(None) }
    }

    /// Asks for a change.
    pub fn begin_change(&mut self, key: Key, change: Change) {
        match &change {
            Change::Level(_) => (self.level, self.ever_chose) = (None, true),
            Change::Subscription(uri, _) => drop(self.subscriptions.insert(uri.clone(), None)),
        }
        self.under_way = Some((key, change));
    }

    /// A request was answered.
    pub fn settle(&mut self, key: Key, went_well: bool) {
        match self.under_way.take_if(|(it, _)| *it == key) {
            Some((_, Change::Level(level))) if went_well => self.level = Some(Some(level)),
            Some((_, Change::Subscription(uri, wanted))) if went_well => {
                self.subscriptions.insert(uri, Some(wanted));
            }
            _ => {}
        }
    }

    /// A request was called off: whatever becomes of it, nobody will say.
    pub fn give_up(&mut self, key: Key) {
        self.settle(key, false);
    }

    /// Reads the answer to a request, perhaps a list.
    pub fn read_list(&mut self, method: Method, body: &[u8]) {
        if !matches!(method, Method::ToolsList | Method::PromptsList | Method::ResourcesList) {
            return;
        }
        self.lists.retain(|(it, _)| *it != method);
        self.lists.push((method, ListRead { edition: edition_in(body), stale: false }));
    }

    /// Is told something; perhaps that a list has changed.
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

/// The edition that a list says it is of.
fn edition_in(body: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(body);
    let digits =
        text.split("edition ").nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
