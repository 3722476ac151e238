//! What the server last said of itself: its handshake, its lists.
//!
//! Whatever passes is kept, page by page and byte for byte, in case somebody asks while the server is not there: when it
//! starts, when it is away. A list is answered from here whole or not at all: a first page whose second one is missing would
//! lead its reader into a live list with a cursor of yesterday. Nothing in here decides *when* that is done; that is
//! [`super::startup`]'s business. What is kept has an end in bytes and in number, and the oldest goes first.
//!
//! In the modern era a server says for how long a list may be taken for true (`ttlMs`) and by whom (`cacheScope`). Here there
//! is one credential per catalogue, so either scope is served; how old it is, is counted from when the server said it.

use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Message, Method, edit, meta};

use crate::defaults;
use crate::list_cache::{CacheKey, Entry, ListCache};
use crate::moment::Moment;
use crate::timers::TimerId;

/// The revisions that begin with a handshake.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// What the server last said of itself.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// Oldest first.
    pages: Vec<Page>,
    /// The revision of the legacy conversation, as the client was told.
    spoken: Option<String>,
    /// Something is in here that nobody has been asked to keep.
    pub unsaved: bool,
    pub timer: Option<TimerId>,
    /// When it was last given away to be kept.
    pub saved_at: Option<Moment>,
}

/// One answer.
#[derive(Debug)]
pub struct Page {
    key: CacheKey,
    pub answer: Message,
    /// It was this old …
    age: Duration,
    /// … at this time.
    at: Moment,
}

impl Page {
    fn age(&self, now: Moment) -> Duration {
        self.age.saturating_add(now.since(self.at))
    }

    /// For how long it may still be taken for true.
    pub fn holds_for(&self, now: Moment) -> Duration {
        let millis = self.answer.get(&["ttlMs"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse::<u64>().ok());
        Duration::from_millis(millis.unwrap_or(0)).saturating_sub(self.age(now))
    }

    fn next(&self) -> Option<String> {
        self.answer.get_str(&["nextCursor"]).map(std::borrow::Cow::into_owned)
    }
}

impl Catalogue {
    /// What a request is about, if its answer can be kept: nothing but the page that is asked for may matter to it.
    pub fn key(&self, request: &Message) -> Option<CacheKey> {
        let method = request.method();
        let is_kept = matches!(
            method,
            Method::ToolsList
                | Method::PromptsList
                | Method::ResourcesList
                | Method::ResourcesTemplatesList
                | Method::Discover
        );
        let is_plain = |request: &Message| {
            let mut members = request.value().into_iter().flat_map(|params| params.members());
            members.all(|(name, _)| matches!(name.as_str().as_deref(), Some("cursor" | "_meta")))
        };
        if !is_kept || !is_plain(request) {
            return None;
        }
        let version = match meta::protocol_version(request) {
            Some(version) => version.into_owned(),
            None => self.spoken.clone()?,
        };
        let cursor = match request.get(&["cursor"]) {
            None | Some(b"null") => None,
            Some(_) => Some(request.get_str(&["cursor"])?.into_owned()),
        };
        Some(CacheKey { version, method, cursor })
    }

    /// The answer to this, if what follows it is here as well.
    pub fn find(&self, key: &CacheKey) -> Option<&Page> {
        self.rest(key)?;
        self.page(key)
    }

    /// What follows this page, by its cursor; `None` if the list has a hole or no end.
    pub fn rest(&self, key: &CacheKey) -> Option<Vec<(String, Message)>> {
        let mut rest = Vec::new();
        let mut last = self.page(key)?;
        while rest.len() < defaults::LIST_PAGES as usize {
            let Some(cursor) = last.next() else { return Some(rest) };
            last = self.page(&CacheKey { cursor: Some(cursor.clone()), ..key.clone() })?;
            rest.push((cursor, last.answer.clone()));
        }
        None
    }

    /// What the server would say to a handshake that asks for this revision: what it said to one that did, or to another if
    /// it proves that the server speaks this one.
    pub fn handshake(&self, requested: &str) -> Option<&Message> {
        let handshakes = || self.pages.iter().rev().filter(|page| page.key.method == Method::Initialize);
        let agreed = |page: &&Page| page.answer.get_str(&["protocolVersion"]).as_deref() == Some(requested);
        let page = handshakes().find(|page| page.key.version == requested).or_else(|| handshakes().find(agreed))?;
        Some(&page.answer)
    }

    /// The conversation is held in the revision that this answer to a handshake names.
    pub fn learn_version(&mut self, answer: &Message) {
        self.spoken = answer.get_str(&["protocolVersion"]).map(std::borrow::Cow::into_owned);
    }

    /// The server said this, just now.
    pub fn learn(&mut self, key: CacheKey, answer: &Message, now: Moment) {
        if key.cursor.is_none() && self.page(&key).is_some_and(|page| page.answer.body() != answer.body()) {
            // Another list begins: what followed the old one does not follow this one.
            self.pages.retain(|page| page.key.version != key.version || page.key.method != key.method);
        }
        // A copy: what was read from a line or a body may hang on a buffer that is much larger.
        let Ok(answer) = Message::parse(Bytes::copy_from_slice(answer.text())) else { return };
        let Some(Entry { key, answer, age }) = Entry::try_new(key, answer, Duration::ZERO) else { return };
        let is_news = self.page(&key).is_none_or(|page| page.answer.body() != answer.body());
        // That the same is true still is worth keeping, too, where its age matters.
        self.unsaved |= is_news || answer.find(&["ttlMs"]).is_some();
        self.put(Page { key, answer, age, at: now });
    }

    /// What is kept from an earlier time. What has been heard since is better.
    pub fn load(&mut self, cached: ListCache, now: Moment) {
        for Entry { key, answer, age } in cached.into_entries() {
            if self.page(&key).is_none() {
                self.put(Page { key, answer, age, at: now });
            }
        }
    }

    /// Everything, to be kept.
    pub fn to_cache(&self, now: Moment) -> ListCache {
        let entry = |page: &Page| Entry { key: page.key.clone(), answer: page.answer.clone(), age: page.age(now) };
        ListCache::new(self.pages.iter().map(entry).collect())
    }

    /// The server says that this list is another one now. It is kept for want of a better one, and not taken for true.
    pub fn invalidate(&mut self, method: Method) {
        for page in self.pages.iter_mut().filter(|page| page.key.method == method) {
            page.age = Duration::MAX;
        }
    }

    /// The server no longer answers a handshake as it did.
    pub fn forget_handshakes(&mut self) {
        let before = self.pages.len();
        self.pages.retain(|page| !matches!(page.key.method, Method::Initialize | Method::Discover));
        self.unsaved |= self.pages.len() < before;
    }

    /// It is another server from now on, of which nothing is known.
    pub fn reset(&mut self) {
        self.pages.clear();
        self.unsaved = false;
    }

    /// Every page of the tools, whatever the revision.
    pub fn tools(&self) -> impl Iterator<Item = &Message> {
        self.pages.iter().filter(|page| page.key.method == Method::ToolsList).map(|page| &page.answer)
    }

    fn page(&self, key: &CacheKey) -> Option<&Page> {
        self.pages.iter().find(|page| page.key == *key)
    }

    fn put(&mut self, page: Page) {
        self.pages.retain(|old| old.key != page.key);
        self.pages.push(page);
        let size = |page: &Page| page.answer.text().len();
        let mut bytes: usize = self.pages.iter().map(size).sum();
        while bytes > defaults::CATALOGUE_BYTES || self.pages.len() > defaults::CATALOGUE_ENTRIES {
            bytes -= size(&self.pages.remove(0));
        }
    }
}

/// An answer with its time to live set to this. To a modern client that is said even where the server was silent about it.
pub fn with_ttl(answer: &Message, time: Duration) -> Message {
    let millis = time.as_millis().to_string();
    let text = edit::set_member(answer, &[], "ttlMs", millis.as_bytes()).to_bytes();
    Message::parse(text).unwrap_or_else(|_| answer.clone())
}

/// Is this a revision that begins with a handshake, and that is known here?
pub fn is_known_legacy(version: &str) -> bool {
    LEGACY.contains(&version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn page(tools: &str, next: &str) -> Message {
        let next = if next.is_empty() { String::new() } else { format!(r#","nextCursor":"{next}""#) };
        message(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tools}]{next}}}}}"#))
    }

    fn initialized() -> Catalogue {
        let mut catalogue = Catalogue::default();
        catalogue.learn_version(&message(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#));
        catalogue
    }

    fn key(catalogue: &Catalogue, params: &str) -> Option<CacheKey> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#);
        catalogue.key(&message(&text))
    }

    #[test]
    fn incomplete_list_is_not_found() {
        let mut catalogue = initialized();
        let [first, second] = ["{}", r#"{"cursor":"b"}"#].map(|params| key(&catalogue, params).unwrap());
        catalogue.learn(first.clone(), &page("1", "b"), Moment::ZERO);
        assert!(catalogue.find(&first).is_none(), "its second page is missing");
        catalogue.learn(second.clone(), &page("2", ""), Moment::ZERO);
        assert!(catalogue.find(&first).is_some() && catalogue.find(&second).is_some());
        catalogue.learn(first.clone(), &page("1", "b"), Moment::ZERO);
        assert!(catalogue.find(&first).is_some(), "the same list is read again");
        catalogue.learn(first.clone(), &page("3", "b"), Moment::ZERO);
        assert!(catalogue.find(&first).is_none(), "another list has another second page");
        catalogue.learn(second, &page("2", "b"), Moment::ZERO);
        assert!(catalogue.find(&first).is_none(), "a list that never ends is none");
    }

    #[test]
    fn request_with_other_params_is_not_cached() {
        let catalogue = initialized();
        assert!(key(&catalogue, r#"{"_meta":{"progressToken":1}}"#).is_some());
        assert!(key(&catalogue, r#"{"cursor":null}"#).unwrap().cursor.is_none());
        assert!(key(&catalogue, r#"{"cursor":5}"#).is_none());
        assert!(key(&catalogue, r#"{"filter":"mine"}"#).is_none());
        assert!(key(&Catalogue::default(), "{}").is_none(), "nobody knows which revision is spoken");
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        assert_eq!(key(&Catalogue::default(), modern).unwrap().version, "2026-07-28");
    }

    #[test]
    fn cached_handshake_matches_the_requested_revision() {
        let mut catalogue = Catalogue::default();
        let handshake = |version: &str| CacheKey { version: version.into(), method: Method::Initialize, cursor: None };
        let answer = message(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#);
        catalogue.learn(handshake("2025-11-25"), &answer, Moment::ZERO);
        assert!(catalogue.handshake("2025-11-25").is_some(), "asked the same, it says the same");
        assert!(catalogue.handshake("2025-06-18").is_some(), "it speaks this one");
        assert!(catalogue.handshake("2024-11-05").is_none(), "nobody knows what it says to that");
        catalogue.forget_handshakes();
        assert!(catalogue.handshake("2025-11-25").is_none());
    }

    #[test]
    fn catalogue_is_bounded_and_evicts_the_oldest() {
        let mut catalogue = initialized();
        let big = format!("\"{}\"", "x".repeat(defaults::CATALOGUE_BYTES / 4));
        for cursor in 0..8 {
            let key = key(&catalogue, &format!(r#"{{"cursor":"{cursor}"}}"#)).unwrap();
            catalogue.learn(key, &page(&big, ""), Moment::ZERO);
        }
        let kept = catalogue.to_cache(Moment::ZERO).into_entries();
        assert_eq!(kept.iter().map(|entry| entry.key.cursor.clone().unwrap()).collect::<Vec<_>>(), ["5", "6", "7"]);
    }

    #[test]
    fn list_is_fresh_for_its_ttl_unless_invalidated() {
        let mut catalogue = initialized();
        let key = key(&catalogue, "{}").unwrap();
        let answer = message(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":60000,"cacheScope":"public"}}"#);
        catalogue.learn(key.clone(), &answer, Moment::ZERO);
        let later = Moment::ZERO + Duration::from_secs(45);
        assert_eq!(catalogue.find(&key).unwrap().holds_for(later), Duration::from_secs(15));
        let mut cached = catalogue.to_cache(later);
        cached.grow_older(Duration::from_secs(10));
        let mut next = initialized();
        next.load(cached, Moment::ZERO);
        let page = next.find(&key).unwrap();
        assert_eq!(page.holds_for(Moment::ZERO), Duration::from_secs(5), "age outlives the process");
        assert_eq!(
            with_ttl(&page.answer, Duration::ZERO).text(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"ttlMs":0,"cacheScope":"public"}}"#
        );
        next.invalidate(Method::ToolsList);
        assert_eq!(next.find(&key).unwrap().holds_for(Moment::ZERO), Duration::ZERO);
    }
}
