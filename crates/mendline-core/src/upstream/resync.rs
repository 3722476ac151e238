//! The resynchronisation of lists, and the announcement of their changes.
//!
//! Notifications during an outage are lost, and a restarted server may have other tools. So after an outage every list
//! that the client has read is read again and compared. A list that was answered from the
//! [cache](super::list_sync) counts as read before an outage: once the server is ready, it is compared with the
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
use super::internal::InternalRequest;
use super::list_sync::{Comparison, PageRead};
use crate::cx::Cx;
use crate::dispatch::{ClientEvent, NoticeAbout};
use crate::event::Event;
use crate::port::ClientId;
use crate::request::{ClientRequest, ListKind};
use crate::slab::Key;

impl Upstream {
    /// Starts to read the lists again after an outage: an answer has shown that this is possible.
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
        let calls = &self.calls;
        let is_running = |kind| calls.iter().any(|(_, call)| call.owner == Owner::Us(InternalRequest::List(kind)));
        let Some((kind, request)) = self.lists.begin_due(is_running, cx.now) else { return false };
        self.read_page(kind, request, cx);
        true
    }

    fn read_page(&mut self, kind: ListKind, request: Option<ClientRequest>, cx: &mut Cx<'_>) {
        if let Some(request) = request {
            self.send_internal(InternalRequest::List(kind), request, cx);
        }
    }

    /// Handles a page that is read again.
    pub(super) fn page_read(&mut self, kind: ListKind, request: &ClientRequest, page: &Message, cx: &mut Cx<'_>) {
        if page.kind() == Kind::Error {
            return self.page_unreadable(kind, cx);
        }
        let read = self.lists.note_page(kind, request, page);
        if read == PageRead::Unknown {
            return;
        }
        if kind == ListKind::Tools && self.config.trust_hints {
            self.tools.learn(page, self.lists.pages_read(kind) == 1);
            self.note_hints(cx);
        }
        match read {
            PageRead::Next(cursor) => self.read_page(kind, self.lists.page_request(kind, Some(&cursor)), cx),
            PageRead::Complete | PageRead::Unknown => self.compare(kind, cx),
        }
    }

    /// Compares a list that was read again with the one that the client has read.
    fn compare(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        let comparison = self.lists.compare(kind, cx.now);
        if !matches!(comparison, Comparison::Waits) {
            self.save_soon(cx);
        }
        match comparison {
            Comparison::Waits => self.watch_lists(cx),
            Comparison::Same(Some(why)) => {
                cx.emit(Event::ListChangeHidden { upstream: self.id, method: kind.method(), why });
            }
            Comparison::Changed => self.notify_changed(kind, cx),
            Comparison::Same(None) | Comparison::Unknown => {}
        }
    }

    /// Handles a list that cannot be read.
    pub(super) fn page_unreadable(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        if self.lists.note_unreadable(kind) {
            self.notify_changed(kind, cx);
        }
    }

    /// Handles a list that was not answered.
    pub(super) fn page_lost(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        if self.lists.note_lost(kind, cx.now) {
            self.watch_lists(cx);
        }
    }

    /// Notifies the clients of a changed list: with the notifications of the server, if there are any.
    fn notify_changed(&mut self, kind: ListKind, cx: &mut Cx<'_>) {
        cx.emit(Event::ListChanged { upstream: self.id, method: kind.method() });
        let notices = self.lists.take_notices(kind);
        if !notices.is_empty() {
            return notices.into_iter().for_each(|notice| self.handle_notice(notice, cx));
        }
        if self.lists.is_read_by_modern(kind) {
            let listeners = self.calls.keys_by_age();
            let told = listeners.into_iter().filter(|key| self.notify_listener(*key, kind, cx)).count();
            return self.lists.set_unannounced(kind, told == 0);
        }
        let name = kind.changed().name().unwrap_or_default();
        self.notify_all(&json!({ "jsonrpc": "2.0", "method": name }).to_string(), cx);
    }

    /// Handles the server's notification that a list has changed: it is collected with others, if the client has read
    /// such a list.
    pub(super) fn list_change_reported(&mut self, notice: Message, cx: &mut Cx<'_>) {
        match self.lists.collect(notice, cx.now) {
            Ok(()) => self.watch_lists(cx),
            Err(notice) => self.handle_notice(notice, cx),
        }
    }

    fn watch_lists(&mut self, cx: &mut Cx<'_>) {
        self.lists.watch(self.id, cx);
    }

    /// Handles the timer of the lists.
    pub fn handle_lists_timer(&mut self, cx: &mut Cx<'_>) {
        self.lists.handle_timer(cx.now);
        if self.is_open() {
            self.lists.set_may_read();
        }
        self.watch_lists(cx);
    }

    /// Notifies a modern client of the changes that no subscription has covered so far.
    pub(super) fn notify_new_listener(&mut self, key: Key, cx: &mut Cx<'_>) {
        for kind in ListKind::ALL {
            if self.lists.is_unannounced(kind) && self.notify_listener(key, kind, cx) {
                self.lists.set_unannounced(kind, false);
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
            cx.send_to_client(client, ClientEvent::Notice { message: message.clone(), about: NoticeAbout::Session });
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
            if !self.lists.note_reopened(ListKind::reported_by(kind.changed())) {
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
        self.lists.set_due();
        self.lists.set_may_read();
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
        cx.send_to_client(client, ClientEvent::Notice { message, about: NoticeAbout::Subscription(request, at) });
    }
}
