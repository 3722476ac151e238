//! The resynchronisation of lists after an outage.
//!
//! Notifications during an outage are lost, and a restarted server may have other tools. So after an outage every list
//! that the client has read is read again. A changed list becomes a `list_changed`, a subscribed resource an `updated`.
//! Only a checksum of a list is kept; the order of entries and the page boundaries do not matter.
//!
//! A list that was answered from the [catalogue](super::catalogue) counts as read before an outage: once the server is
//! ready, it is compared with the live one.
//!
//! In the modern era notifications come over the stream of a `subscriptions/listen`. When that stream is reopened after
//! an outage, everything that it covers is reported as changed; this costs the client one read of each list.

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

/// A kind of list.
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

    /// The member of the answer that holds the entries.
    pub(super) fn member(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resourceTemplates",
        }
    }

    /// The filter of a modern subscription for its changes.
    fn filter(self) -> &'static str {
        match self {
            ListKind::Tools => "toolsListChanged",
            ListKind::Prompts => "promptsListChanged",
            ListKind::Resources | ListKind::Templates => "resourcesListChanged",
        }
    }

    /// The notification of its changes.
    fn changed(self) -> Method {
        match self {
            ListKind::Tools => Method::ToolsListChanged,
            ListKind::Prompts => Method::PromptsListChanged,
            ListKind::Resources | ListKind::Templates => Method::ResourcesListChanged,
        }
    }
}

/// The checksum of a list's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    content: u64,
    pages: u32,
    /// Read before the outage.
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

/// The lists as the client has read them, and as they were read again.
#[derive(Debug, Default)]
pub struct Lists {
    seen: [Option<Sum>; 4],
    read: [Sum; 4],
    /// The pages after the cached page that was read first, with their cursors.
    rest: [Vec<(String, Message)>; 4],
    /// A modern client's request that was answered from the cache: it is needed to read the list again.
    cached_requests: [Option<Message>; 4],
    /// A change that no subscription covers yet.
    unannounced: [bool; 4],
}

impl Lists {
    /// Records a page that the client has read.
    pub fn learn(&mut self, call: &Message, answer: &Message) {
        let Some(kind) = ListKind::of(call.method()) else { return };
        let goes_on = call.find(&["cursor"]).is_some();
        if !goes_on {
            self.rest[kind as usize].clear();
            self.unannounced[kind as usize] = false;
        }
        if meta::is_modern(call) {
            // The client has read the live list itself.
            if !goes_on && self.cached_requests[kind as usize].take().is_some() {
                self.seen[kind as usize] = None;
            }
            return;
        }
        self.add(kind, goes_on, answer);
    }

    /// Records a cached page that the client has read.
    pub fn learn_from_cache(&mut self, kind: ListKind, call: &Message, answer: &Message) {
        let goes_on = call.find(&["cursor"]).is_some();
        if !goes_on {
            self.cached_requests[kind as usize] = meta::is_modern(call).then(|| call.clone());
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

    /// Keeps the pages after the first cached page that the client has read.
    pub fn hold_rest(&mut self, kind: ListKind, rest: Vec<(String, Message)>) {
        self.rest[kind as usize] = rest;
    }

    /// The next page of the cached list that the client is reading: its cursors are invalid in the live list.
    pub fn rest(&self, kind: ListKind, cursor: &str) -> Option<&Message> {
        self.rest[kind as usize].iter().find(|(it, _)| it == cursor).map(|(_, page)| page)
    }

    /// Records a list that the client could not read.
    pub fn note_missed(&mut self, kind: ListKind) {
        self.seen[kind as usize].get_or_insert_default().is_old = true;
    }

    /// Marks all lists as read before an outage. Returns whether there are any.
    pub fn age(&mut self) -> bool {
        self.seen.iter_mut().flatten().for_each(|seen| seen.is_old = true);
        self.seen.iter().any(Option::is_some)
    }

    /// Marks a list as compared.
    fn compared(&mut self, kind: ListKind) {
        if let Some(seen) = &mut self.seen[kind as usize] {
            seen.is_old = false;
        }
    }

    /// Clears everything for a new session.
    pub fn clear(&mut self) {
        *self = Lists::default();
    }
}

impl Upstream {
    /// Starts to read the lists again after an outage.
    pub(super) fn resync_lists(&mut self, cx: &mut Cx<'_>) {
        // The answer may have come over an old connection while the link is down.
        if !self.link.is_up() {
            return;
        }
        self.look_up_hints(cx);
        for _ in ListKind::ALL {
            self.read_old_list(cx);
        }
    }

    /// Reads one list again that the client read before an outage. Returns whether there was one.
    pub(super) fn read_old_list(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.resync_due {
            return false;
        }
        for kind in ListKind::ALL {
            // The client has read the list since.
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
        if let Some(request) = self.lists.cached_requests[kind as usize].clone() {
            let text = match cursor {
                Some(cursor) => edit::set_member(&request, &[], "cursor", cursor).to_bytes(),
                None => request.text().clone(),
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

    /// Handles a page that is read again. As many pages are read as the client has read.
    pub(super) fn page_read(&mut self, kind: ListKind, request: &Message, page: &Message, cx: &mut Cx<'_>) {
        let Some(seen) = self.lists.seen[kind as usize] else { return };
        if page.kind() == Kind::Error {
            return self.page_unreadable(kind, cx);
        }
        self.cache(request, page, cx);
        let read = &mut self.lists.read[kind as usize];
        read.add(kind, page);
        let so_far = *read;
        if kind == ListKind::Tools && self.config.trust_hints {
            self.tools.learn(page, so_far.pages == 1);
            self.note_hints(cx);
        }
        let more = page.get(&["nextCursor"]).filter(|cursor| cursor.starts_with(b"\""));
        match more {
            Some(cursor) if so_far.pages < seen.pages.min(defaults::LIST_PAGES) => {
                self.read_page(kind, Some(cursor), cx);
            }
            // Page boundaries may have moved; only the whole list is compared.
            _ => {
                self.lists.compared(kind);
                if so_far.content != seen.content {
                    self.notify_changed(kind, cx);
                }
            }
        }
    }

    /// Handles a list that cannot be read: it has changed, unless it was empty.
    pub(super) fn page_unreadable(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        self.lists.compared(kind);
        if self.lists.seen[kind as usize].is_some_and(|seen| seen.pages > 0) {
            self.notify_changed(kind, cx);
        }
    }

    fn notify_changed(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        cx.emit(Event::ListChanged { upstream: self.id, method: kind.method() });
        if self.lists.cached_requests[kind as usize].is_some() {
            self.lists.unannounced[kind as usize] = true;
            for key in self.calls.keys_by_age() {
                self.notify_listener(key, cx);
            }
            return;
        }
        let name = kind.changed().name().unwrap_or_default();
        self.notify_all(&json!({ "jsonrpc": "2.0", "method": name }).to_string(), cx);
    }

    /// Notifies a modern client of changed lists that its subscription covers.
    pub(super) fn notify_listener(&mut self, key: Key, cx: &mut Cx<'_>) {
        if !self.lists.unannounced.contains(&true) {
            return;
        }
        let Some(Call { owner: Owner::Client { client, request }, message: listen, confirmed: true, .. }) =
            self.calls.get(key).filter(|call| call.is_subscription())
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

    /// Marks the cached list as changed, after a notification of the server.
    pub(super) fn invalidate_list(&mut self, notice: Method) {
        for kind in ListKind::ALL.into_iter().filter(|kind| kind.changed() == notice) {
            self.catalogue.invalidate(kind.method());
        }
    }

    /// Notifies the clients that a subscribed resource may have changed during the outage.
    pub(super) fn notify_updated(&mut self, subscribe: &Message, cx: &mut Cx<'_>) {
        let Some(uri) = subscribe.get_str(&["uri"]) else { return };
        let notice = json!({
            "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
        });
        self.notify_all(&notice.to_string(), cx);
    }

    /// Sends a notification of Mendline to all clients.
    pub(super) fn notify_all(&mut self, text: &str, cx: &mut Cx<'_>) {
        let Ok(message) = Message::parse(Bytes::copy_from_slice(text.as_bytes())) else { return };
        for client in self.clients.clone() {
            cx.send_to_client(client, ClientEvent::Notice { message: message.clone(), subscription: None });
        }
    }

    /// Reports everything that a reopened subscription covers as changed.
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
