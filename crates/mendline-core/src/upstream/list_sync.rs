//! The lists of a server: as its clients have read them, as they are cached, and whether they are to be read again.
//!
//! This part decides; [`super::startup`] answers requests with it, and [`super::resync`] reads the lists again and
//! notifies the clients.

mod catalogue;
mod lists;

use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Kind, Message, Method, code};

pub use self::catalogue::is_known_legacy;
use self::catalogue::{Catalogue, with_ttl};
use self::lists::{Lists, ReadAgain};
use super::http::params;
use crate::cx::{Alarm, Cx};
use crate::defaults;
use crate::event::HiddenChange;
use crate::list_cache::{CacheKey, ListCache, error_code};
use crate::moment::Moment;
use crate::port::UpstreamId;
use crate::request::{ClientRequest, ListKind};

/// The lists of a server.
#[derive(Debug, Default)]
pub struct ListSync {
    /// As clients have read them.
    lists: Lists,
    catalogue: Catalogue,
    /// The handshake that the client received from the cache or provisionally.
    provisional_handshake: Option<Message>,
    /// Lists may have changed during an outage and are to be read again.
    is_due: bool,
    /// The server may have become ready since the lists were last looked at.
    may_read: bool,
}

/// The state of the server when a request may be answered from the cache.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// The server answers requests of this era now.
    pub is_ready: bool,
    /// The server has answered a request of a client before.
    pub ever_answered: bool,
}

/// An answer from the cache.
#[derive(Debug)]
pub struct CachedAnswer {
    pub message: Message,
    /// It may differ from that of the server.
    pub is_stale: bool,
}

/// What follows from the page of a list that is read again.
#[derive(Debug, PartialEq, Eq)]
pub enum PageRead {
    /// The next page is to be read.
    Next(String),
    /// The list is complete.
    Complete,
    /// The client has not read this list.
    Unknown,
}

/// The result of comparing a list with the one that the client has read.
#[derive(Debug)]
pub enum Comparison {
    /// Entries are missing that may come back: it is read again soon.
    Waits,
    /// It is the same. A change that the server reported, or that was seen before, is hidden.
    Same(Option<HiddenChange>),
    Changed,
    /// The client has not read this list.
    Unknown,
}

impl ListSync {
    // ---- answers before the server's ----

    /// Loads the saved cache.
    pub fn load(&mut self, cached: ListCache, now: Moment) {
        self.catalogue.load(cached, now);
    }

    /// All cached pages of the tools.
    pub fn cached_tools(&self) -> impl Iterator<Item = &Message> {
        self.catalogue.tools()
    }

    /// The cached answer to a handshake that requests this revision.
    pub fn cached_handshake(&self, requested: &str) -> Option<Message> {
        self.catalogue.handshake(requested).cloned()
    }

    /// Records an answer to the handshake of a client that does not come from the server.
    pub fn note_provisional_handshake(&mut self, answer: &Message) {
        self.catalogue.learn_version(answer);
        self.lists.clear();
        self.provisional_handshake = Some(answer.clone());
    }

    /// Returns whether the client has such an answer.
    pub fn is_provisional(&self) -> bool {
        self.provisional_handshake.is_some()
    }

    /// Records that the server itself answered the handshake of a client.
    pub fn note_own_handshake(&mut self) {
        self.provisional_handshake = None;
        self.lists.clear();
    }

    /// The members in which the server's handshake differs from the one that the client received.
    pub fn differing_members(&self, answer: &Message) -> Vec<&'static str> {
        let Some(provisional) = &self.provisional_handshake else { return Vec::new() };
        let differs = |member: &&str| provisional.get(&[member]) != answer.get(&[member]);
        ["protocolVersion", "capabilities", "serverInfo", "instructions"].into_iter().filter(differs).collect()
    }

    /// The cached answer to a list or to `server/discover`, if the client should get it now.
    pub fn cached_answer(&mut self, asked: &ClientRequest, server: Readiness, now: Moment) -> Option<CachedAnswer> {
        let key = self.catalogue.key(asked)?;
        let (kind, is_modern) = (asked.op.list(), asked.is_modern());
        let continued = kind.zip(key.cursor.as_deref()).and_then(|(kind, cursor)| self.lists.rest(kind, cursor));
        // A refusal is for the start. Later the server is asked: a new process may not refuse any more.
        let is_usable = |answer: &Message| answer.kind() != Kind::Error || !server.ever_answered;
        let page = self.catalogue.find(&key).filter(|page| is_usable(&page.answer));
        let left = page.map(|page| page.holds_for(now)).unwrap_or_default();
        let holds = is_modern && server.is_ready && !left.is_zero() && continued.is_none();
        // A client that is reading the cached list reads it to its end.
        let is_cached = !server.is_ready || holds || kind.is_some_and(|kind| self.lists.is_held(kind));
        let answer = continued.or(page.filter(|_| is_cached).map(|page| &page.answer))?;
        let message = match (is_modern, holds) {
            (false, _) => answer.clone(),
            (true, true) => with_ttl(answer, left),
            (true, false) => with_ttl(answer, Duration::ZERO),
        };
        if let (Some(kind), false) = (kind, holds) {
            self.lists.learn_from_cache(kind, asked, &message);
            if key.cursor.is_none() {
                self.lists.hold_rest(kind, self.catalogue.rest(&key).unwrap_or_default());
            }
            self.is_due = true;
        }
        Some(CachedAnswer { message, is_stale: !holds })
    }

    /// An empty list for one that the server does not have, although the provisional capabilities name it.
    pub fn empty_list(&self, asked: &ClientRequest, answer: &Message) -> Option<Message> {
        let is_unknown = answer.kind() == Kind::Error && error_code(answer) == Some(code::METHOD_NOT_FOUND);
        let kind = asked.op.list().filter(|_| is_unknown && !asked.is_modern() && self.is_provisional())?;
        let text = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"{}":[]}}}}"#, kind.member());
        Message::parse(Bytes::from(text)).ok()
    }

    /// A list with the entries that the client knows, in the order in which it read them first.
    pub fn in_first_order(&self, asked: &ClientRequest, answer: &Message) -> Option<Message> {
        asked.op.list()?;
        self.catalogue.in_first_order(&self.catalogue.key(asked)?, answer)
    }

    // ---- the cache ----

    /// Caches an answer of the server.
    pub fn cache(&mut self, request: &ClientRequest, answer: &Message, now: Moment) {
        if let Some(key) = self.catalogue.key(request) {
            let ordered = self.catalogue.in_first_order(&key, answer);
            self.catalogue.learn(key, ordered.as_ref().unwrap_or(answer), now);
        }
    }

    /// Records the server's answer to a handshake, and caches it if `is_cached`.
    pub fn learn_handshake(&mut self, handshake: &ClientRequest, answer: &Message, is_cached: bool, now: Moment) {
        // The cache follows the revision that the client received.
        if !self.is_provisional() {
            self.catalogue.learn_version(answer);
        }
        if let Some(version) = handshake.message.get_str(&["protocolVersion"]).filter(|_| is_cached) {
            let key = CacheKey { version: version.into_owned(), method: Method::Initialize, cursor: None };
            self.catalogue.learn(key, answer, now);
        }
    }

    /// Removes the cached handshakes: the server refuses one that it accepted before.
    pub fn forget_handshakes(&mut self) {
        self.catalogue.forget_handshakes();
    }

    /// Clears the cache for another server.
    pub fn reset_cache(&mut self) {
        self.catalogue.reset();
    }

    /// Arms the timer that saves the cache, if it has changed.
    pub fn save_soon(&mut self, upstream: UpstreamId, cx: &mut Cx<'_>) {
        if self.catalogue.unsaved && self.catalogue.timer.is_none() {
            let soon = cx.now + defaults::CACHE_AFTER;
            let at = self.catalogue.saved_at.map_or(soon, |saved_at| soon.max(saved_at + defaults::CACHE_PAUSE));
            self.catalogue.timer = cx.timers.arm(at, Alarm::Cache(upstream));
        }
    }

    /// Records that the timer has fired.
    pub fn note_cache_timer(&mut self) {
        self.catalogue.timer = None;
    }

    /// The cache as it is now.
    pub fn to_cache(&self, now: Moment) -> ListCache {
        self.catalogue.to_cache(now)
    }

    /// Takes the cache to be saved now, if it has changed.
    pub fn take_unsaved(&mut self, cx: &mut Cx<'_>) -> Option<ListCache> {
        cx.disarm(&mut self.catalogue.timer);
        if !std::mem::take(&mut self.catalogue.unsaved) {
            return None;
        }
        self.catalogue.saved_at = Some(cx.now);
        Some(self.catalogue.to_cache(cx.now))
    }

    // ---- what clients have read ----

    /// Records a page that a client has read, with the time at which it was requested. Returns the list if it is
    /// complete and differs from that of the other clients.
    pub fn learn(
        &mut self,
        asked: &ClientRequest,
        answer: &Message,
        requested: Moment,
        are_several: bool,
    ) -> Option<ListKind> {
        self.lists.learn(asked, answer, requested, are_several)
    }

    /// Returns whether a client has read this list.
    pub fn is_read(&self, kind: ListKind) -> bool {
        self.lists.get(kind).seen.is_some()
    }

    /// Returns whether the client that has read this list is a modern one, which is notified by its subscription.
    pub fn is_read_by_modern(&self, kind: ListKind) -> bool {
        self.lists.get(kind).request.is_some()
    }

    /// Records a list that failed before the server was ever ready: the client is notified when it can be read.
    pub fn note_missed(&mut self, kind: ListKind) {
        self.lists.note_missed(kind);
    }

    // ---- reading again ----

    /// Records a new session of the same server: all lists of sessions are read again.
    pub fn note_new_session(&mut self) {
        self.is_due = self.lists.age();
    }

    /// Records the end of an outage that the session survived: notifications during it are lost.
    pub fn note_outage(&mut self) {
        self.is_due |= self.lists.age();
    }

    /// Records an outage of the subscription that reports these lists. Returns whether a client has read one of them.
    pub fn note_reopened(&mut self, kinds: impl Iterator<Item = ListKind>) -> bool {
        let mut is_any = false;
        kinds.for_each(|kind| is_any |= self.lists.note_outage(kind));
        is_any
    }

    /// Records that lists are to be read again.
    pub fn set_due(&mut self) {
        self.is_due = true;
    }

    /// Records that the server may be ready to read lists.
    pub fn set_may_read(&mut self) {
        self.may_read = true;
    }

    /// Returns whether the server may have become ready since the last time.
    pub fn take_may_read(&mut self) -> bool {
        std::mem::take(&mut self.may_read)
    }

    /// Begins to read a list again that is due and not being read. Returns its first request.
    pub fn begin_due(&mut self, is_running: impl Fn(ListKind) -> bool, now: Moment) -> Option<(ListKind, Request)> {
        if !self.is_due {
            return None;
        }
        let due = self.lists.due(now).find(|kind| !is_running(*kind));
        let Some(kind) = due else {
            self.is_due = false;
            return None;
        };
        let list = self.lists.of(kind);
        (list.read_again, list.pages_read) = Default::default();
        Some((kind, self.page_request(kind, None)))
    }

    /// The request for a page of a list; `None` if none can be made.
    pub fn page_request(&self, kind: ListKind, cursor: Option<&str>) -> Request {
        let method = kind.method().name().unwrap_or_default();
        match &self.lists.get(kind).request {
            Some(request) => params::with_meta_of(request, method, cursor),
            None => params::in_session(method, cursor),
        }
    }

    /// Records a page that was read again. As many pages are read as the client has read.
    pub fn note_page(&mut self, kind: ListKind, request: &ClientRequest, page: &Message) -> PageRead {
        let list = self.lists.of(kind);
        let Some(seen) = &list.seen else { return PageRead::Unknown };
        let most = seen.pages.min(defaults::LIST_PAGES);
        list.read_again.add(kind, page);
        list.pages_read.push((request.clone(), page.clone()));
        match page.get_str(&["nextCursor"]) {
            Some(cursor) if list.read_again.pages < most => PageRead::Next(cursor.into_owned()),
            // Page boundaries may have moved; only the whole list is compared.
            _ => PageRead::Complete,
        }
    }

    /// The number of pages of a list that were read again.
    pub fn pages_read(&self, kind: ListKind) -> u32 {
        self.lists.get(kind).read_again.pages
    }

    /// Compares a list that was read again with the one that the client has read, and caches it unless it waits.
    pub fn compare(&mut self, kind: ListKind, now: Moment) -> Comparison {
        let list = self.lists.of(kind);
        let read = std::mem::take(&mut list.read_again);
        let pages = std::mem::take(&mut list.pages_read);
        let Some(seen) = &list.seen else { return Comparison::Unknown };
        // A list that the client could not read is reported even if it is empty.
        let is_same = seen.has_same_entries(&read) && seen.pages > 0;
        let is_reported = list.reported.as_ref().is_some_and(|reported| reported.has_same_entries(&read));
        if !is_same && !is_reported && read.lacks_entries_of(seen) {
            let since = *list.missing_since.get_or_insert(now);
            if now < since + defaults::LIST_HOLD {
                list.not_before = Some(now + defaults::LIST_RECHECK);
                return Comparison::Waits;
            }
        }
        for (request, page) in pages {
            self.cache(&request, &page, now);
        }
        if is_same || is_reported {
            return Comparison::Same(self.settle_unchanged(kind, now));
        }
        let list = self.lists.of(kind);
        list.reported = Some(read);
        list.settle();
        Comparison::Changed
    }

    /// Settles a list that is the same as before. Returns the change that is hidden, if one is.
    fn settle_unchanged(&mut self, kind: ListKind, now: Moment) -> Option<HiddenChange> {
        let list = self.lists.of(kind);
        let was_missing = list.missing_since.is_some();
        list.settle();
        // Another list with the same notification may have changed.
        let is_open = ListKind::reported_by(kind.changed()).any(|it| self.lists.get(it).due.is_some());
        let notices = &mut self.lists.of(kind.reporting()).notices;
        let was_reported = !is_open && notices.until.is_none() && !notices.take().is_empty();
        if was_reported {
            notices.quiet_until = Some(now + defaults::LIST_CHANGES_PAUSE);
        }
        match (was_missing, was_reported) {
            (true, _) => Some(HiddenChange::EntriesCameBack),
            (false, true) => Some(HiddenChange::NoDifference),
            (false, false) => None,
        }
    }

    /// Settles a list that the server refused to read. Returns whether it has changed: it was not empty.
    pub fn note_unreadable(&mut self, kind: ListKind) -> bool {
        let list = self.lists.of(kind);
        list.settle();
        list.seen.as_ref().is_some_and(|seen| seen.pages > 0)
    }

    /// Records a page without an answer: the next answer starts another resynchronisation. Returns whether the list is
    /// read again without one, because entries were missing.
    pub fn note_lost(&mut self, kind: ListKind, now: Moment) -> bool {
        self.is_due = true;
        let list = self.lists.of(kind);
        list.is_unreadable = true;
        let is_missing = list.missing_since.is_some();
        if is_missing {
            list.not_before = Some(now + defaults::LIST_RECHECK);
        }
        is_missing
    }

    // ---- notifications ----

    /// Takes the server's notifications of a changed list.
    pub fn take_notices(&mut self, kind: ListKind) -> Vec<Message> {
        self.lists.of(kind.reporting()).notices.take()
    }

    /// Collects the server's notification that a list has changed. Returns it if the client has read no such list.
    pub fn collect(&mut self, notice: Message, now: Moment) -> Result<(), Message> {
        for kind in ListKind::reported_by(notice.method()) {
            self.catalogue.invalidate(kind.method());
        }
        match ListKind::reported_by(notice.method()).find(|kind| self.is_read(*kind)) {
            Some(kind) => {
                self.lists.of(kind.reporting()).notices.add(notice, now);
                Ok(())
            }
            None => Err(notice),
        }
    }

    /// Sets whether no subscription covers a change of this list yet.
    pub fn set_unannounced(&mut self, kind: ListKind, is_unannounced: bool) {
        self.lists.of(kind).unannounced = is_unannounced;
    }

    /// Returns whether no subscription covers a change of this list yet.
    pub fn is_unannounced(&self, kind: ListKind) -> bool {
        self.lists.get(kind).unannounced
    }

    // ---- the timer ----

    /// Arms the timer for the next step.
    pub fn watch(&mut self, upstream: UpstreamId, cx: &mut Cx<'_>) {
        cx.disarm(&mut self.lists.timer);
        if let Some(at) = self.lists.next() {
            self.lists.timer = cx.timers.arm(at, Alarm::Lists(upstream));
        }
    }

    /// Handles the timer: lists whose changes were collected long enough are to be read.
    pub fn handle_timer(&mut self, now: Moment) {
        self.lists.timer = None;
        for reporting in ListKind::ALL {
            let list = self.lists.of(reporting);
            list.not_before = list.not_before.filter(|at| *at > now);
            let notices = &mut list.notices;
            if notices.until.is_none_or(|until| until > now) {
                continue;
            }
            notices.until = None;
            for kind in ListKind::reported_by(reporting.changed()) {
                let list = self.lists.of(kind);
                list.due = list.due.max(list.seen.is_some().then_some(ReadAgain::Notified));
            }
        }
        self.is_due = true;
    }
}

/// A request, if one can be made.
type Request = Option<ClientRequest>;
