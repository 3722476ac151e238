//! The lists of a server, as the client has read them.
//!
//! A change of a list costs a client a read, and its model the cached prompt. So two lists with the same entries are
//! the same list: the order of entries, the order of members and the page boundaries do not matter. Only checksums are
//! kept.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use mendline_wire::{Message, Value, meta};

use crate::defaults;
use crate::moment::Moment;
use crate::request::{ClientRequest, ListKind};
use crate::timers::TimerId;

/// The entries of a list as checksums of name and content.
#[derive(Clone, Debug, Default)]
pub struct Content {
    entries: BTreeSet<(u64, u64)>,
    pub pages: u32,
}

impl Content {
    pub fn add(&mut self, kind: ListKind, page: &Message) {
        self.pages += 1;
        self.entries.extend(
            page.elements(&[kind.member()]).map(|entry| (checksum(entry.at(&[kind.name()])), checksum(Some(entry)))),
        );
    }

    pub fn has_same_entries(&self, other: &Content) -> bool {
        self.entries == other.entries
    }

    /// Returns whether an entry of `before` is missing, by its name.
    pub fn lacks_entries_of(&self, before: &Content) -> bool {
        let has = |name: u64| self.entries.range((name, 0)..).next().is_some_and(|(it, _)| *it == name);
        before.entries.iter().any(|(name, _)| !has(*name))
    }
}

/// Returns whether two pages have the same entries in any order.
pub fn has_same_entries(kind: ListKind, page: &Message, other: &Message) -> bool {
    let sorted = |page: &Message| {
        let mut all: Vec<u64> = page.elements(&[kind.member()]).map(|entry| checksum(Some(entry))).collect();
        all.sort_unstable();
        all
    };
    sorted(page) == sorted(other)
}

/// The checksum of a value, whatever the order of its members.
fn checksum(value: Option<Value<'_>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Some(value) = value else { return hasher.finish() };
    match value.raw().first() {
        Some(b'{') => {
            let member = |(name, value): (Value<'_>, Value<'_>)| {
                let mut hasher = DefaultHasher::new();
                (name.as_str(), checksum(Some(value))).hash(&mut hasher);
                hasher.finish()
            };
            (b'{', value.members().map(member).fold(0, u64::wrapping_add)).hash(&mut hasher);
        }
        Some(b'[') => {
            b'['.hash(&mut hasher);
            value.elements(&[]).for_each(|element| checksum(Some(element)).hash(&mut hasher));
        }
        Some(b'"') => (b'"', value.as_str()).hash(&mut hasher),
        _ => value.raw().hash(&mut hasher),
    }
    hasher.finish()
}

/// Why a list is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadAgain {
    /// The server reported a change.
    Notified,
    /// Notifications may be lost, and the server may have been replaced. Until the list is read, the client gets the
    /// cached one.
    Outage,
}

/// One list.
#[derive(Debug, Default)]
pub struct List {
    /// As the client has read it.
    pub seen: Option<Content>,
    /// As the other clients have read it, while one of several reads it.
    before: Option<Content>,
    /// As it is being read again …
    pub read_again: Content,
    /// … with the requests and answers so far.
    pub pages_read: Vec<(ClientRequest, Message)>,
    pub due: Option<ReadAgain>,
    /// The list is not read before this time.
    pub not_before: Option<Moment>,
    /// The server did not answer when it was read again.
    pub is_unreadable: bool,
    /// Entries have been missing since this time.
    pub missing_since: Option<Moment>,
    /// The content that was reported to the client, which has not read it.
    pub reported: Option<Content>,
    /// The request of a modern client: it is needed to read the list again.
    pub request: Option<ClientRequest>,
    /// The pages after the cached page that the client read first, with their cursors.
    rest: Vec<(String, Message)>,
    /// A change that no subscription covers yet.
    pub unannounced: bool,
    pub notices: Notices,
}

/// Notifications of a server that a list has changed, before they are passed on.
#[derive(Debug, Default)]
pub struct Notices {
    /// The last one per subscription.
    all: Vec<Message>,
    first: Option<Moment>,
    last: Option<Moment>,
    /// They are collected until this time.
    pub until: Option<Moment>,
    /// After a report without a change the next one waits until this time.
    pub quiet_until: Option<Moment>,
}

impl Notices {
    pub fn add(&mut self, notice: Message, now: Moment) {
        let of = |notice: &Message| meta::subscription_id(notice).map(|at| notice.slice(at).to_vec());
        let subscription = of(&notice);
        self.all.retain(|it| of(it) != subscription);
        if self.all.len() < defaults::SUBSCRIPTIONS {
            self.all.push(notice);
        }
        let first = *self.first.get_or_insert(now);
        self.last = Some(now);
        let soon = (now + defaults::LIST_CHANGES).min(first + defaults::LIST_CHANGES_MOST);
        self.until = Some(self.quiet_until.map_or(soon, |quiet| soon.max(quiet)));
    }

    pub fn take(&mut self) -> Vec<Message> {
        (self.first, self.until) = (None, None);
        std::mem::take(&mut self.all)
    }
}

impl List {
    fn add(&mut self, kind: ListKind, goes_on: bool, page: &Message) {
        let seen = self.seen.get_or_insert_default();
        if !goes_on {
            *seen = Content::default();
        }
        seen.add(kind, page);
    }

    /// Marks the list as compared with that of the server.
    pub fn settle(&mut self) {
        (self.due, self.not_before, self.missing_since, self.is_unreadable) = (None, None, None, false);
    }

    fn is_due(&self, now: Moment) -> bool {
        self.seen.is_some() && self.due.is_some() && self.not_before.is_none_or(|at| at <= now)
    }
}

/// The lists of a server.
#[derive(Debug, Default)]
pub struct Lists {
    all: [List; 4],
    pub timer: Option<TimerId>,
}

impl Lists {
    pub fn of(&mut self, kind: ListKind) -> &mut List {
        &mut self.all[kind as usize]
    }

    pub fn get(&self, kind: ListKind) -> &List {
        &self.all[kind as usize]
    }

    /// Records a page that a client has read, with the time at which it was requested. Returns the list if it is
    /// complete and differs from that of the other clients.
    pub fn learn(
        &mut self,
        call: &ClientRequest,
        answer: &Message,
        requested: Moment,
        are_several: bool,
    ) -> Option<ListKind> {
        let kind = call.op.list()?;
        let goes_on = call.message.find(&["cursor"]).is_some();
        let list = self.of(kind);
        if !goes_on {
            list.before = list.seen.clone().filter(|_| are_several);
            list.rest.clear();
            list.unannounced = false;
            list.reported = None;
            list.request = call.is_modern().then(|| call.clone());
            // A change that was reported after the request may be missing in this answer.
            if list.notices.last.is_none_or(|last| last < requested) {
                list.settle();
                list.notices.take();
            }
        }
        list.add(kind, goes_on, answer);
        if answer.find(&["nextCursor"]).is_some() {
            return None;
        }
        let before = list.before.take().filter(|before| before.pages > 0)?;
        let is_same = list.seen.as_ref().is_some_and(|seen| seen.has_same_entries(&before));
        (!is_same).then_some(kind)
    }

    /// Records a cached page that the client has read.
    pub fn learn_from_cache(&mut self, kind: ListKind, call: &ClientRequest, answer: &Message) {
        let goes_on = call.message.find(&["cursor"]).is_some();
        let list = self.of(kind);
        if !goes_on {
            list.request = call.is_modern().then(|| call.clone());
        }
        list.add(kind, goes_on, answer);
        list.due = Some(ReadAgain::Outage);
    }

    /// Keeps the pages after the first cached page that the client has read.
    pub fn hold_rest(&mut self, kind: ListKind, rest: Vec<(String, Message)>) {
        self.of(kind).rest = rest;
    }

    /// The next page of the cached list that the client is reading: its cursors are invalid in the live list.
    pub fn rest(&self, kind: ListKind, cursor: &str) -> Option<&Message> {
        self.all[kind as usize].rest.iter().find(|(it, _)| it == cursor).map(|(_, page)| page)
    }

    /// Records a list that the client could not read.
    pub fn note_missed(&mut self, kind: ListKind) {
        let list = self.of(kind);
        list.seen.get_or_insert_default();
        list.due = Some(ReadAgain::Outage);
    }

    /// Marks all lists of a session as read before an outage. Returns whether there are any.
    pub fn age(&mut self) -> bool {
        let mut is_any = false;
        for kind in ListKind::ALL {
            is_any |= self.of(kind).request.is_none() && self.note_outage(kind);
        }
        is_any
    }

    /// Marks a list as read before an outage. Returns whether the client has read it.
    pub fn note_outage(&mut self, kind: ListKind) -> bool {
        let list = self.of(kind);
        if list.seen.is_none() {
            return false;
        }
        list.settle();
        list.due = Some(ReadAgain::Outage);
        true
    }

    /// Returns whether the client gets the cached list, because the live one may not be complete after an outage.
    pub fn is_held(&self, kind: ListKind) -> bool {
        let list = &self.all[kind as usize];
        list.seen.is_some() && list.due == Some(ReadAgain::Outage) && !list.is_unreadable
    }

    /// The lists to be read again now.
    pub fn due(&self, now: Moment) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.into_iter().filter(move |kind| self.all[*kind as usize].is_due(now))
    }

    /// The time of the next step.
    pub fn next(&self) -> Option<Moment> {
        self.all
            .iter()
            .flat_map(|list| [list.not_before.filter(|_| list.due.is_some()), list.notices.until])
            .flatten()
            .min()
    }

    /// Clears everything for a new session.
    pub fn clear(&mut self) {
        self.all = Default::default();
    }
}
