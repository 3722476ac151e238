//! The list cache of a server: its last handshake and lists.
//!
//! Every cacheable answer is stored, page by page and byte for byte, to answer requests while the server starts or is
//! away. A list is answered from here completely or not at all: after a cached first page without a second, the client
//! would use an old cursor in the live list. [`ListSync`](super::ListSync) decides when the cache is used. The cache is bounded in
//! bytes and in number; the oldest entries are evicted first.
//!
//! In the modern era a server states how long a list is fresh (`ttlMs`) and for whom (`cacheScope`). A catalogue
//! belongs to one credential, so both scopes are served. The age counts from the server's answer.

use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Message, Method, edit, meta, revision};

use super::lists::has_same_entries;
use crate::defaults;
use crate::list_cache::{CacheKey, Entry, ListCache};
use crate::moment::Moment;
use crate::request::{ClientRequest, Op};
use crate::timers::TimerId;

/// The list cache of a server.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// Oldest first.
    pages: Vec<Page>,
    /// The revision of the legacy session, as the client received it.
    version: Option<String>,
    /// Changed since it was last saved.
    pub unsaved: bool,
    pub timer: Option<TimerId>,
    /// The time of the last save.
    pub saved_at: Option<Moment>,
}

/// One cached answer.
#[derive(Debug)]
pub struct Page {
    key: CacheKey,
    pub answer: Message,
    /// Its age …
    age: Duration,
    /// … at this time.
    at: Moment,
}

impl Page {
    fn age(&self, now: Moment) -> Duration {
        self.age.saturating_add(now.since(self.at))
    }

    /// The rest of its time to live.
    pub fn holds_for(&self, now: Moment) -> Duration {
        let millis = self.answer.get(&["ttlMs"]).and_then(|raw| std::str::from_utf8(raw).ok()?.parse::<u64>().ok());
        Duration::from_millis(millis.unwrap_or(0)).saturating_sub(self.age(now))
    }

    fn next(&self) -> Option<String> {
        self.answer.get_str(&["nextCursor"]).map(std::borrow::Cow::into_owned)
    }
}

impl Catalogue {
    /// The cache key of a request, if its answer can be cached: its only parameter is the page.
    pub fn key(&self, request: &ClientRequest) -> Option<CacheKey> {
        let is_kept = matches!(request.op, Op::List(_) | Op::Discover);
        let (method, request) = (request.method(), &request.message);
        let is_plain = |request: &Message| {
            let mut members = request.value().into_iter().flat_map(|params| params.members());
            members.all(|(name, _)| matches!(name.as_str().as_deref(), Some("cursor" | "_meta")))
        };
        if !is_kept || !is_plain(request) {
            return None;
        }
        let version = match meta::protocol_version(request) {
            Some(version) => version.into_owned(),
            None => self.version.clone()?,
        };
        let cursor = match request.get(&["cursor"]) {
            None | Some(b"null") => None,
            Some(_) => Some(request.get_str(&["cursor"])?.into_owned()),
        };
        Some(CacheKey { version, method, cursor })
    }

    /// The cached answer, if all pages after it are cached too.
    pub fn find(&self, key: &CacheKey) -> Option<&Page> {
        self.rest(key)?;
        self.page(key)
    }

    /// The pages after this one, with their cursors; `None` if a page is missing or the list does not end.
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

    /// The cached answer to a handshake that requests this revision: the answer to the same request, or to another one
    /// if it proves that the server supports this revision.
    pub fn handshake(&self, requested: &str) -> Option<&Message> {
        let handshakes = || self.pages.iter().rev().filter(|page| page.key.method == Method::Initialize);
        let agreed = |page: &&Page| page.answer.get_str(&["protocolVersion"]).as_deref() == Some(requested);
        let page = handshakes().find(|page| page.key.version == requested).or_else(|| handshakes().find(agreed))?;
        Some(&page.answer)
    }

    /// Records the revision in an answer to a handshake.
    pub fn learn_version(&mut self, answer: &Message) {
        self.version = answer.get_str(&["protocolVersion"]).map(std::borrow::Cow::into_owned);
    }

    /// Caches an answer of the server.
    pub fn learn(&mut self, key: CacheKey, answer: &Message, now: Moment) {
        if key.cursor.is_none() && self.page(&key).is_some_and(|page| page.answer.body() != answer.body()) {
            // A new list begins: the later pages of the old one are invalid.
            self.pages.retain(|page| page.key.version != key.version || page.key.method != key.method);
        }
        // A copy: the original may be a slice of a much larger buffer.
        let Ok(answer) = Message::parse(Bytes::copy_from_slice(answer.text())) else { return };
        let Some(Entry { key, answer, age }) = Entry::try_new(key, answer, Duration::ZERO) else { return };
        let is_new = self.page(&key).is_none_or(|page| page.answer.body() != answer.body());
        // An unchanged answer with a TTL is saved too, because its age matters.
        self.unsaved |= is_new || answer.find(&["ttlMs"]).is_some();
        self.put(Page { key, answer, age, at: now });
    }

    /// The list with the bytes and the order of the cached one, if it has the same entries: some servers list their
    /// entries in random order. `None` if it is equal anyway, has other entries or several pages.
    pub fn in_first_order(&self, key: &CacheKey, answer: &Message) -> Option<Message> {
        let kind = Op::of(key.method).list().filter(|_| key.cursor.is_none())?;
        let first = &self.page(key)?.answer;
        let entries = first.get(&[kind.member()])?;
        let has_pages = first.find(&["nextCursor"]).is_some() || answer.find(&["nextCursor"]).is_some();
        if has_pages || answer.get(&[kind.member()])? == entries || !has_same_entries(kind, first, answer) {
            return None;
        }
        Message::parse(edit::set_member(answer, &[], kind.member(), entries).to_bytes()).ok()
    }

    /// Loads a saved cache. Newer answers are kept.
    pub fn load(&mut self, cached: ListCache, now: Moment) {
        for Entry { key, answer, age } in cached.into_entries() {
            if self.page(&key).is_none() {
                self.put(Page { key, answer, age, at: now });
            }
        }
    }

    /// Returns the cache to save.
    pub fn to_cache(&self, now: Moment) -> ListCache {
        let entry = |page: &Page| Entry { key: page.key.clone(), answer: page.answer.clone(), age: page.age(now) };
        ListCache::new(self.pages.iter().map(entry).collect())
    }

    /// Marks a list as changed. It is kept as a fallback, but not as fresh.
    pub fn invalidate(&mut self, method: Method) {
        for page in self.pages.iter_mut().filter(|page| page.key.method == method) {
            page.age = Duration::MAX;
        }
    }

    /// Removes the handshakes: the server no longer answers like this.
    pub fn forget_handshakes(&mut self) {
        let before = self.pages.len();
        self.pages.retain(|page| !matches!(page.key.method, Method::Initialize | Method::Discover));
        self.unsaved |= self.pages.len() < before;
    }

    /// Clears the cache for another server.
    pub fn reset(&mut self) {
        self.pages.clear();
        self.unsaved = false;
    }

    /// All pages of the tools, in all revisions.
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

/// An answer with this time to live. A modern client gets one even if the server named none.
pub fn with_ttl(answer: &Message, time: Duration) -> Message {
    let millis = time.as_millis().to_string();
    let text = edit::set_member(answer, &[], "ttlMs", millis.as_bytes()).to_bytes();
    Message::parse(text).unwrap_or_else(|_| answer.clone())
}

/// Returns whether this is a known revision with a handshake.
pub fn is_known_legacy(version: &str) -> bool {
    revision::LEGACY.contains(&version)
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
        catalogue.key(&ClientRequest::new(message(&text)))
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
        assert!(key(&Catalogue::default(), "{}").is_none(), "the revision is unknown");
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        assert_eq!(key(&Catalogue::default(), modern).unwrap().version, "2026-07-28");
    }

    #[test]
    fn cached_handshake_matches_the_requested_revision() {
        let mut catalogue = Catalogue::default();
        let handshake = |version: &str| CacheKey { version: version.into(), method: Method::Initialize, cursor: None };
        let answer = message(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#);
        catalogue.learn(handshake("2025-11-25"), &answer, Moment::ZERO);
        assert!(catalogue.handshake("2025-11-25").is_some(), "the same request has the same answer");
        assert!(catalogue.handshake("2025-06-18").is_some(), "the server supports this revision");
        assert!(catalogue.handshake("2024-11-05").is_none(), "the answer to this revision is unknown");
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
