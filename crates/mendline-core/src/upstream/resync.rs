//! What a client missed while its server was away, and how it hears of it.
//!
//! Nothing is replayed across a gap: a server that was restarted may have other tools, and a notice that was sent into the
//! void is gone. So when a gap ends, every list that the client has read is read again, and one that reads differently
//! becomes a `list_changed`; a resource that the client has subscribed to becomes an `updated`. Of a list only a sum is
//! kept: the order of its entries is not a difference, and neither is where a page ends.
//!
//! A list that was answered from the [catalogue](super::catalogue) is one that was read before a gap: as soon as the server is
//! there, it is held against the live one.
//!
//! In the modern era notices come over the stream of a `subscriptions/listen`. When that stream is opened again after a gap,
//! what it was opened for is said to have changed; that costs the client one reading, and us none.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use mendline_wire::{Kind, Message, Method, edit, meta};
use serde_json::json;

use super::Upstream;
use super::call::{Call, Owner};
use super::internal::InternalRequest;
use crate::cx::Cx;
use crate::defaults;
use crate::dispatch::ClientEvent;
use crate::event::Event;
use crate::slab::Key;

/// A list that clients read and servers change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    const ALL: [ListKind; 4] = [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];

    pub(super) fn of(method: Method) -> Option<ListKind> {
        ListKind::ALL.into_iter().find(|kind| kind.method() == method)
    }

    fn method(self) -> Method {
        match self {
            ListKind::Tools => Method::ToolsList,
            ListKind::Prompts => Method::PromptsList,
            ListKind::Resources => Method::ResourcesList,
            ListKind::Templates => Method::ResourcesTemplatesList,
        }
    }

    /// Where the entries stand in the answer.
    pub(super) fn member(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resourceTemplates",
        }
    }

    /// How a modern client asks to hear of its changes.
    fn filter(self) -> &'static str {
        match self {
            ListKind::Tools => "toolsListChanged",
            ListKind::Prompts => "promptsListChanged",
            ListKind::Resources | ListKind::Templates => "resourcesListChanged",
        }
    }

    /// What is said when it has changed.
    fn changed(self) -> Method {
        match self {
            ListKind::Tools => Method::ToolsListChanged,
            ListKind::Prompts => Method::PromptsListChanged,
            ListKind::Resources | ListKind::Templates => Method::ResourcesListChanged,
        }
    }
}

/// The pages of a list, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    content: u64,
    pages: u32,
    /// Read before the gap.
    is_old: bool,
}

impl Sum {
    fn add(&mut self, kind: ListKind, page: &Message) {
        self.pages += 1;
        for entry in page.elements(&[kind.member()]) {
            let mut hasher = DefaultHasher::new();
            entry.raw().hash(&mut hasher);
            self.content = self.content.wrapping_add(hasher.finish());
        }
    }
}

/// What the client has read of each list, and what we have read of it since.
#[derive(Debug, Default)]
pub struct Lists {
    seen: [Option<Sum>; 4],
    read: [Sum; 4],
    /// What follows the page from the cache that was read first, by its cursor.
    rest: [Vec<(String, Message)>; 4],
    /// How a modern client asked for what it was answered from the cache: nobody else can ask in its name.
    asked: [Option<Message>; 4],
    /// A change that nobody has asked to hear of yet.
    unannounced: [bool; 4],
}

impl Lists {
    /// The client reads a page of a list.
    pub fn learn(&mut self, call: &Message, answer: &Message) {
        let Some(kind) = ListKind::of(call.method()) else { return };
        let goes_on = call.find(&["cursor"]).is_some();
        if !goes_on {
            self.rest[kind as usize].clear();
            self.unannounced[kind as usize] = false;
        }
        if meta::is_modern(call) {
            // What it has read itself, just now, needs no second look.
            if !goes_on && self.asked[kind as usize].take().is_some() {
                self.seen[kind as usize] = None;
            }
            return;
        }
        self.add(kind, goes_on, answer);
    }

    /// The client reads a page that was kept from an earlier time.
    pub fn learn_from_cache(&mut self, kind: ListKind, call: &Message, answer: &Message) {
        let goes_on = call.find(&["cursor"]).is_some();
        if !goes_on {
            self.asked[kind as usize] = meta::is_modern(call).then(|| call.clone());
        }
        self.add(kind, goes_on, answer);
        if let Some(seen) = &mut self.seen[kind as usize] {
            seen.is_old = true;
        }
    }

    fn add(&mut self, kind: ListKind, goes_on: bool, page: &Message) {
        let seen = &mut self.seen[kind as usize];
        match seen {
            Some(sum) if goes_on => sum.add(kind, page),
            _ => seen.insert(Sum::default()).add(kind, page),
        }
    }

    /// What follows the first page that the client has just read from the cache.
    pub fn hold_rest(&mut self, kind: ListKind, rest: Vec<(String, Message)>) {
        self.rest[kind as usize] = rest;
    }

    /// The page of the list from the cache that the client has begun to read: its cursors mean nothing in another.
    pub fn rest(&self, kind: ListKind, cursor: &str) -> Option<&Message> {
        self.rest[kind as usize].iter().find(|(it, _)| it == cursor).map(|(_, page)| page)
    }

    /// The client wanted to read this list and could not.
    pub fn miss(&mut self, kind: ListKind) {
        self.seen[kind as usize].get_or_insert_default().is_old = true;
    }

    /// What was read so far was read before a gap. Says whether there is anything to compare.
    pub fn age(&mut self) -> bool {
        self.seen.iter_mut().flatten().for_each(|seen| seen.is_old = true);
        self.seen.iter().any(Option::is_some)
    }

    /// It has been held against the live one.
    fn compared(&mut self, kind: ListKind) {
        if let Some(seen) = &mut self.seen[kind as usize] {
            seen.is_old = false;
        }
    }

    /// A new conversation has begun, in which nothing was read yet.
    pub fn clear(&mut self) {
        *self = Lists::default();
    }
}

impl Upstream {
    /// The server is back, and calls are on their way again: looks at what has changed meanwhile.
    pub(super) fn resync_lists(&mut self, cx: &mut Cx<'_>) {
        // An answer may come over a line that was made long ago, while the way there is lost.
        if !self.link.is_up() {
            return;
        }
        for _ in ListKind::ALL {
            self.read_old_list(cx);
        }
    }

    /// Reads a list again that the client has read before a gap. Says whether there was one; the others may follow.
    pub(super) fn read_old_list(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.resync_due {
            return false;
        }
        for kind in ListKind::ALL {
            // What the client has read since is not old.
            let is_old = self.lists.seen[kind as usize].is_some_and(|seen| seen.is_old);
            if is_old && !self.runs(InternalRequest::List(kind)) {
                self.lists.read[kind as usize] = Sum::default();
                self.read_page(kind, None, cx);
                return true;
            }
        }
        self.resync_due = false;
        false
    }

    fn read_page(&mut self, kind: ListKind, cursor: Option<&[u8]>, cx: &mut Cx<'_>) {
        if let Some(asked) = self.lists.asked[kind as usize].clone() {
            let text = match cursor {
                Some(cursor) => edit::set_member(&asked, &[], "cursor", cursor).to_bytes(),
                None => asked.text().clone(),
            };
            if let Ok(message) = Message::parse(text) {
                self.send_internal(InternalRequest::List(kind), message, cx);
            }
            return;
        }
        let name = kind.method().name().unwrap_or_default();
        let mut text = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{name}","params":{{"#).into_bytes();
        if let Some(cursor) = cursor {
            text.extend_from_slice(br#""cursor":"#);
            text.extend_from_slice(cursor);
        }
        text.extend_from_slice(b"}}");
        if let Ok(message) = Message::parse(Bytes::from(text)) {
            self.send_internal(InternalRequest::List(kind), message, cx);
        }
    }

    /// A page of a list that is read again. As many pages are read as the client has seen.
    pub(super) fn page_read(&mut self, kind: ListKind, asked: &Message, page: &Message, cx: &mut Cx<'_>) {
        let Some(seen) = self.lists.seen[kind as usize] else { return };
        if page.kind() == Kind::Error {
            return self.page_unreadable(kind, cx);
        }
        self.cache(asked, page, cx);
        let read = &mut self.lists.read[kind as usize];
        read.add(kind, page);
        let so_far = *read;
        if kind == ListKind::Tools && self.config.trust_hints {
            self.tools.learn(page, so_far.pages == 1);
        }
        let more = page.get(&["nextCursor"]).filter(|cursor| cursor.starts_with(b"\""));
        match more {
            Some(cursor) if so_far.pages < seen.pages.min(defaults::LIST_PAGES) => {
                self.read_page(kind, Some(cursor), cx);
            }
            // Pages may be cut elsewhere now; what they hold together is what counts.
            _ => {
                self.lists.compared(kind);
                if so_far.content != seen.content {
                    self.show_change(kind, cx);
                }
            }
        }
    }

    /// A list cannot be read any more, so it is not what it was, unless it was nothing.
    pub(super) fn page_unreadable(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        self.lists.compared(kind);
        if self.lists.seen[kind as usize].is_some_and(|seen| seen.pages > 0) {
            self.show_change(kind, cx);
        }
    }

    fn show_change(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        cx.emit(Event::ListChanged { upstream: self.id, method: kind.method() });
        if self.lists.asked[kind as usize].is_some() {
            self.lists.unannounced[kind as usize] = true;
            for key in self.calls.keys_by_age() {
                self.notify_listener(key, cx);
            }
            return;
        }
        let name = kind.changed().name().unwrap_or_default();
        self.notify_all(&json!({ "jsonrpc": "2.0", "method": name }).to_string(), cx);
    }

    /// Tells a modern client of lists that have changed, if it has asked to hear of them.
    pub(super) fn notify_listener(&mut self, key: Key, cx: &mut Cx<'_>) {
        if !self.lists.unannounced.contains(&true) {
            return;
        }
        let Some(Call { owner: Owner::Client { client, request }, message: listen, confirmed: true, .. }) =
            self.calls.get(key).filter(|call| call.listens())
        else {
            return;
        };
        for kind in ListKind::ALL {
            let is_wanted = listen.get(&["notifications", kind.filter()]) == Some(b"true");
            if !is_wanted || !std::mem::take(&mut self.lists.unannounced[kind as usize]) {
                continue;
            }
            let meta = json!({ meta::SUBSCRIPTION_ID: 0 });
            let notice =
                json!({ "jsonrpc": "2.0", "method": kind.changed().name(), "params": { "_meta": meta } }).to_string();
            if let Ok(message) = Message::parse(Bytes::from(notice))
                && let Some(at) = meta::subscription_id(&message)
            {
                cx.send_to_client(*client, ClientEvent::Notice { message, subscription: Some((*request, at)) });
            }
        }
    }

    /// The server says that one of its lists has changed: what is kept of it is no longer true.
    pub(super) fn invalidate_list(&mut self, notice: Method) {
        for kind in ListKind::ALL.into_iter().filter(|kind| kind.changed() == notice) {
            self.catalogue.invalidate(kind.method());
        }
    }

    /// A resource that the client has subscribed to may have changed during the gap.
    pub(super) fn notify_updated(&mut self, subscribe: &Message, cx: &mut Cx<'_>) {
        let Some(uri) = subscribe.get_str(&["uri"]) else { return };
        let notice = json!({
            "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
        });
        self.notify_all(&notice.to_string(), cx);
    }

    /// Sends a notification of ours to everybody.
    pub(super) fn notify_all(&mut self, text: &str, cx: &mut Cx<'_>) {
        let Ok(message) = Message::parse(Bytes::copy_from_slice(text.as_bytes())) else { return };
        for client in self.clients.clone() {
            cx.send_to_client(client, ClientEvent::Notice { message: message.clone(), subscription: None });
        }
    }

    /// A stream of notices was opened again after it had been lost: what it was opened for is said to have changed.
    pub(super) fn notify_reopened(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(Call { owner: Owner::Client { client, request }, message: listen, .. }) = self.calls.get(key) else {
            return;
        };
        let meta = || json!({ meta::SUBSCRIPTION_ID: 0 });
        let mut notices = Vec::new();
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            if listen.get(&["notifications", kind.filter()]) == Some(b"true") {
                let name = kind.changed().name();
                notices.push(json!({ "jsonrpc": "2.0", "method": name, "params": { "_meta": meta() } }));
            }
        }
        for uri in listen.elements(&["notifications", "resourceSubscriptions"]) {
            if let Some(uri) = uri.as_str() {
                notices.push(json!({
                    "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri, "_meta": meta() },
                }));
            }
        }
        let (client, request) = (*client, *request);
        for notice in notices {
            if let Ok(message) = Message::parse(Bytes::from(notice.to_string()))
                && let Some(at) = meta::subscription_id(&message)
            {
                cx.send_to_client(client, ClientEvent::Notice { message, subscription: Some((request, at)) });
            }
        }
    }
}
