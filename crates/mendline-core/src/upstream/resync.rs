//! The resynchronisation of lists, and the announcement of their changes.
//!
//! Notifications during an outage are lost, and a restarted server may have other tools. So after an outage every list
//! that the client has read is read again and compared. A list that was answered from the
//! [catalogue](super::catalogue) counts as read before an outage: once the server is ready, it is compared with the
//! live one.
//!
//! A change that the server reports is compared, too: reports are collected for a moment, the list is read, and the
//! client is notified once, of a change only. Entries that are missing may come back, because a server that has just
//! started registers its tools one after the other: such a list is read again for some seconds before it counts as
//! changed. After an outage the client gets the cached list until then.
//!
//! A changed list becomes a `list_changed`, a subscribed resource an `updated`. In the modern era notifications come
//! over the stream of a `subscriptions/listen`. When that stream is reopened, the lists that it covers are compared;
//! the resources that it covers, and lists that the client has not read, are reported as changed.

use bytes::Bytes;
use mendline_wire::{Kind, Message, meta};
use serde_json::json;

use super::Upstream;
use super::call::{Call, Owner};
use super::http::params;
use super::internal::InternalRequest;
use super::lists::ReadAgain;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::dispatch::ClientEvent;
use crate::event::{Event, HiddenChange};
use crate::port::ClientId;
use crate::request::{ClientRequest, ListKind};
use crate::slab::Key;

impl Upstream {
    /// Starts to read the lists again after an outage, if an answer has shown since the last time that this is possible.
    pub(super) fn resync_lists(&mut self, cx: &mut Cx<'_>) {
        // The answer may have come over an old connection while the link is down.
        if !std::mem::take(&mut self.resync_now) || !self.link.is_up() {
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
        let due = self.lists.due(cx.now).find(|kind| !self.runs(InternalRequest::List(*kind)));
        if let Some(kind) = due {
            let list = self.lists.of(kind);
            (list.read_again, list.pages_read) = Default::default();
            self.read_page(kind, None, cx);
            return true;
        }
        self.resync_due = false;
        false
    }

    fn read_page(&mut self, kind: ListKind, cursor: Option<&str>, cx: &mut Cx<'_>) {
        let method = kind.method().name().unwrap_or_default();
        let request = match &self.lists.of(kind).request {
            Some(request) => params::with_meta_of(request, method, cursor),
            None => params::in_session(method, cursor),
        };
        if let Some(request) = request {
            self.send_internal(InternalRequest::List(kind), request, cx);
        }
    }

    /// Handles a page that is read again. As many pages are read as the client has read.
    pub(super) fn page_read(&mut self, kind: ListKind, request: &ClientRequest, page: &Message, cx: &mut Cx<'_>) {
        if page.kind() == Kind::Error {
            return self.page_unreadable(kind, cx);
        }
        let list = self.lists.of(kind);
        let Some(seen) = &list.seen else { return };
        let most = seen.pages.min(defaults::LIST_PAGES);
        list.read_again.add(kind, page);
        list.pages_read.push((request.clone(), page.clone()));
        let pages = list.read_again.pages;
        if kind == ListKind::Tools && self.config.trust_hints {
            self.tools.learn(page, pages == 1);
            self.note_hints(cx);
        }
        match page.get_str(&["nextCursor"]) {
            Some(cursor) if pages < most => self.read_page(kind, Some(&cursor), cx),
            // Page boundaries may have moved; only the whole list is compared.
            _ => self.compare(kind, cx),
        }
    }

    /// Compares a list that was read again with the one that the client has read.
    fn compare(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        let list = self.lists.of(kind);
        let read = std::mem::take(&mut list.read_again);
        let pages = std::mem::take(&mut list.pages_read);
        let Some(seen) = &list.seen else { return };
        // A list that the client could not read is reported even if it is empty.
        let is_same = seen.has_same_entries(&read) && seen.pages > 0;
        let is_reported = list.reported.as_ref().is_some_and(|reported| reported.has_same_entries(&read));
        if !is_same && !is_reported && read.lacks_entries_of(seen) {
            let since = *list.missing_since.get_or_insert(cx.now);
            if cx.now < since + defaults::LIST_HOLD {
                list.not_before = Some(cx.now + defaults::LIST_RECHECK);
                return self.watch_lists(cx);
            }
        }
        for (request, page) in pages {
            self.cache(&request, &page, cx);
        }
        if is_same || is_reported {
            return self.list_unchanged(kind, cx);
        }
        let list = self.lists.of(kind);
        list.reported = Some(read);
        list.settle();
        self.notify_changed(kind, cx);
    }

    /// Handles a list that is the same as before.
    fn list_unchanged(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        let list = self.lists.of(kind);
        let was_missing = list.missing_since.is_some();
        list.settle();
        // Another list with the same notification may have changed.
        let is_open = ListKind::reported_by(kind.changed()).any(|it| self.lists.of(it).due.is_some());
        let notices = &mut self.lists.of(kind.reporting()).notices;
        let was_reported = !is_open && notices.until.is_none() && !notices.take().is_empty();
        if was_reported {
            notices.quiet_until = Some(cx.now + defaults::LIST_CHANGES_PAUSE);
        }
        let why = match (was_missing, was_reported) {
            (true, _) => HiddenChange::EntriesCameBack,
            (false, true) => HiddenChange::NoDifference,
            (false, false) => return,
        };
        cx.emit(Event::ListChangeHidden { upstream: self.id, method: kind.method(), why });
    }

    /// Handles a list that cannot be read: it has changed, unless it was empty.
    pub(super) fn page_unreadable(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        let list = self.lists.of(kind);
        list.settle();
        if list.seen.as_ref().is_some_and(|seen| seen.pages > 0) {
            self.notify_changed(kind, cx);
        }
    }

    /// Handles a list that was not answered: the next answer starts another resynchronisation. A list with missing
    /// entries is read again without one.
    pub(super) fn page_lost(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        let list = self.lists.of(kind);
        list.is_unreadable = true;
        if list.missing_since.is_some() {
            list.not_before = Some(cx.now + defaults::LIST_RECHECK);
            self.watch_lists(cx);
        }
        self.resync_due = true;
    }

    /// Notifies the clients of a changed list: with the notifications of the server, if there are any.
    fn notify_changed(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        cx.emit(Event::ListChanged { upstream: self.id, method: kind.method() });
        let notices = self.lists.of(kind.reporting()).notices.take();
        if !notices.is_empty() {
            return notices.into_iter().for_each(|notice| self.handle_notice(notice, cx));
        }
        if self.lists.of(kind).request.is_some() {
            let listeners = self.calls.keys_by_age();
            let told = listeners.into_iter().filter(|key| self.notify_listener(*key, kind, cx)).count();
            self.lists.of(kind).unannounced = told == 0;
            return;
        }
        let name = kind.changed().name().unwrap_or_default();
        self.notify_all(&json!({ "jsonrpc": "2.0", "method": name }).to_string(), cx);
    }

    /// Handles the server's notification that a list has changed: it is collected with others, if the client has read
    /// such a list.
    pub(super) fn list_change_reported(&mut self, notice: Message, cx: &mut Cx<'_>) {
        for kind in ListKind::reported_by(notice.method()) {
            self.catalogue.invalidate(kind.method());
        }
        let mut seen = ListKind::reported_by(notice.method()).filter(|kind| self.lists.of(*kind).seen.is_some());
        let Some(kind) = seen.next() else { return self.handle_notice(notice, cx) };
        self.lists.of(kind.reporting()).notices.add(notice, cx.now);
        self.watch_lists(cx);
    }

    fn watch_lists(&mut self, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.lists.timer);
        if let Some(at) = self.lists.next() {
            self.lists.timer = cx.timers.arm(at, Alarm::Lists(self.id));
        }
    }

    /// Handles the timer of the lists.
    pub fn handle_lists_timer(&mut self, cx: &mut Cx<'_>) {
        self.lists.timer = None;
        for reporting in ListKind::ALL {
            let list = self.lists.of(reporting);
            list.not_before = list.not_before.filter(|at| *at > cx.now);
            let notices = &mut list.notices;
            if notices.until.is_none_or(|until| until > cx.now) {
                continue;
            }
            notices.until = None;
            for kind in ListKind::reported_by(reporting.changed()) {
                let list = self.lists.of(kind);
                list.due = list.due.max(list.seen.is_some().then_some(ReadAgain::Notified));
            }
        }
        self.resync_due = true;
        self.resync_now |= self.is_open();
        self.watch_lists(cx);
    }

    /// Notifies a modern client of the changes that no subscription has covered so far.
    pub(super) fn notify_new_listener(&mut self, key: Key, cx: &mut Cx<'_>) {
        for kind in ListKind::ALL {
            if self.lists.of(kind).unannounced && self.notify_listener(key, kind, cx) {
                self.lists.of(kind).unannounced = false;
            }
        }
    }

    /// Notifies the clients of a changed list that one of them has read before the others knew of the change.
    pub(super) fn notify_others(&mut self, reader: ClientId, kind: ListKind, cx: &mut Cx<'_>) {
        cx.emit(Event::ListChanged { upstream: self.id, method: kind.method() });
        let name = kind.changed().name().unwrap_or_default();
        let Ok(message) = Message::parse(Bytes::from(json!({ "jsonrpc": "2.0", "method": name }).to_string())) else {
            return;
        };
        for client in self.clients.ids().into_iter().filter(|client| *client != reader) {
            cx.send_to_client(client, ClientEvent::Notice { message: message.clone(), subscription: None });
        }
    }

    /// Notifies a modern client of a changed list, if this is its subscription. Returns whether it is.
    fn notify_listener(&self, key: Key, kind: ListKind, cx: &mut Cx<'_>) -> bool {
        let Some(Call { owner: Owner::Client { client, request }, confirmed: true, .. }) =
            self.calls.get(key).filter(|call| call.is_subscription() && call.wants_changes_of(kind))
        else {
            return false;
        };
        let notice =
            json!({ "jsonrpc": "2.0", "method": kind.changed().name(), "params": { "_meta": no_subscription() } });
        send_to_subscription(*client, *request, &notice, cx);
        true
    }

    /// Notifies the clients that a subscribed resource may have changed during the outage.
    pub(super) fn notify_updated(&mut self, subscribe: &ClientRequest, cx: &mut Cx<'_>) {
        let Some(uri) = subscribe.message.get_str(&["uri"]) else { return };
        let notice = json!({
            "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri },
        });
        self.notify_all(&notice.to_string(), cx);
    }

    /// Sends a notification of Mendline to all clients.
    pub(super) fn notify_all(&mut self, text: &str, cx: &mut Cx<'_>) {
        let Ok(message) = Message::parse(Bytes::copy_from_slice(text.as_bytes())) else { return };
        self.notify(&message, cx);
    }

    /// Handles a reopened subscription: notifications may be lost. The lists that the client has read are compared;
    /// everything else that it covers is reported as changed.
    pub(super) fn notify_reopened(&mut self, key: Key, cx: &mut Cx<'_>) {
        let Some(call) = self.calls.get(key) else { return };
        let Owner::Client { client, request } = call.owner else { return };
        let mut notices = Vec::new();
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            if !call.wants_changes_of(kind) {
                continue;
            }
            let mut is_compared = false;
            for kind in ListKind::reported_by(kind.changed()) {
                is_compared |= self.lists.note_outage(kind);
            }
            if !is_compared {
                let name = kind.changed().name();
                notices.push(json!({ "jsonrpc": "2.0", "method": name, "params": { "_meta": no_subscription() } }));
            }
        }
        for uri in call.request.message.elements(&["notifications", "resourceSubscriptions"]) {
            if let Some(uri) = uri.as_str() {
                notices.push(json!({
                    "jsonrpc": "2.0", "method": "notifications/resources/updated",
                    "params": { "uri": uri, "_meta": no_subscription() },
                }));
            }
        }
        for notice in notices {
            send_to_subscription(client, request, &notice, cx);
        }
        (self.resync_due, self.resync_now) = (true, true);
    }
}

/// The metadata of a subscription whose id is set later.
fn no_subscription() -> serde_json::Value {
    json!({ meta::SUBSCRIPTION_ID: 0 })
}

fn send_to_subscription(client: ClientId, request: Key, notice: &serde_json::Value, cx: &mut Cx<'_>) {
    if let Ok(message) = Message::parse(Bytes::from(notice.to_string()))
        && let Some(at) = meta::subscription_id(&message)
    {
        cx.send_to_client(client, ClientEvent::Notice { message, subscription: Some((request, at)) });
    }
}
