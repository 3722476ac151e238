//! The cached handshake and lists of a server, in a form that can be stored.
//!
//! An [`Entry`] is a whole answer of the server, unchanged, with its key: revision, method, page. So an answer from the
//! cache is byte for byte what the server sent. The shell decides where the cache is stored, for whom, and whether a
//! file can be trusted. [`Entry::try_new`] decides whether an entry can be an answer at all.
//!
//! Time is stored as age, because the clocks of two processes have no common origin. The shell adds the time that
//! passed meanwhile ([`ListCache::grow_older`]).

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use mendline_wire::{Kind, Limits, Message, Method, code, quote};

use crate::defaults;

/// The cache of one server.
#[derive(Clone, Debug, Default)]
pub struct ListCache {
    entries: Vec<Entry>,
    /// The longest time from a start of the server to its first answer.
    pub(crate) slowest_start: Option<Duration>,
}

/// One answer of a server with its key.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) key: CacheKey,
    pub(crate) answer: Message,
    pub(crate) age: Duration,
}

/// The key of a cached answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    /// The negotiated revision; for a handshake, the requested one.
    pub(crate) version: String,
    pub(crate) method: Method,
    /// The page of a list; `None` is the first.
    pub(crate) cursor: Option<String>,
}

/// An error: the stored text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Entry {
    /// Creates an entry if `answer` can be an answer to `key`.
    pub(crate) fn try_new(key: CacheKey, answer: Message, age: Duration) -> Option<Entry> {
        let has_list = |member: &str| answer.get(&[member]).is_some_and(|raw| raw.starts_with(b"["));
        let fits = match (key.method, answer.kind()) {
            (Method::Initialize, Kind::Result) => answer.get_str(&["protocolVersion"]).is_some(),
            (Method::Discover, Kind::Result) => has_list("supportedVersions"),
            // A server that does not know the method is of the legacy era.
            // Older servers refuse it with many codes; an internal error may pass.
            (Method::Discover, Kind::Error) => error_code(&answer).is_some_and(|code| code != code::INTERNAL_ERROR),
            (Method::ToolsList, Kind::Result) => has_list("tools"),
            (Method::PromptsList, Kind::Result) => has_list("prompts"),
            (Method::ResourcesList, Kind::Result) => has_list("resources"),
            (Method::ResourcesTemplatesList, Kind::Result) => has_list("resourceTemplates"),
            _ => false,
        };
        fits.then_some(Entry { key, answer, age })
    }
}

impl ListCache {
    pub(crate) fn new(entries: Vec<Entry>) -> ListCache {
        ListCache { entries, slowest_start: None }
    }

    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// The number of answers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The known tool names, each once.
    pub fn tools(&self) -> Vec<String> {
        let lists = self.entries.iter().filter(|entry| entry.key.method == Method::ToolsList);
        let mut names: Vec<String> = Vec::new();
        for tool in lists.flat_map(|list| list.answer.elements(&["tools"])) {
            // The same list may be cached for two revisions.
            names
                .extend(tool.get_str(&["name"]).filter(|name| !names.iter().any(|it| it == name)).map(Cow::into_owned));
        }
        names
    }

    /// Adds the time that passed since it was written.
    pub fn grow_older(&mut self, by: Duration) {
        for entry in &mut self.entries {
            entry.age = entry.age.saturating_add(by);
        }
    }

    /// Writes the cache. The answers are unchanged.
    pub fn write(&self) -> Vec<u8> {
        let start = self.slowest_start.map(|start| format!(r#""startMs":{},"#, start.as_millis())).unwrap_or_default();
        let mut text = format!(r#"{{"jsonrpc":"2.0","method":"catalogue","params":{{{start}"entries":["#).into_bytes();
        for (index, entry) in self.entries.iter().enumerate() {
            let CacheKey { version, method, cursor } = &entry.key;
            let age = u64::try_from(entry.age.as_millis()).unwrap_or(u64::MAX);
            let between = if index == 0 { "" } else { "," };
            let method = quote(method.name().unwrap_or_default());
            let cursor = cursor.as_ref().map_or(String::new(), |cursor| format!(r#""cursor":{},"#, quote(cursor)));
            let head = format!(
                "{between}\n{{\"version\":{},\"method\":{method},{cursor}\"ageMs\":{age},\"answer\":",
                quote(version)
            );
            text.extend_from_slice(head.as_bytes());
            text.extend_from_slice(entry.answer.text());
            text.push(b'}');
        }
        text.extend_from_slice(b"\n]}}");
        text
    }

    /// Reads the output of [`ListCache::write`]. Invalid entries are skipped; a text of another format is refused.
    pub fn read(text: &[u8]) -> Result<ListCache, Unreadable> {
        let plain = Limits::default();
        let limits = Limits { message_bytes: 2 * defaults::CATALOGUE_BYTES, depth: plain.depth + 8, ..plain };
        let whole = Message::parse_with(Bytes::copy_from_slice(text), &limits)
            .map_err(|error| Unreadable(error.to_string()))?;
        if whole.method_name() != "catalogue" || whole.find(&["entries"]).is_none() {
            return Err(Unreadable("it is no catalogue".to_owned()));
        }
        let number = |raw: &[u8]| std::str::from_utf8(raw).ok()?.parse::<u64>().ok();
        let slowest_start = whole.get(&["startMs"]).and_then(number).map(Duration::from_millis);
        let mut entries = Vec::new();
        for entry in whole.elements(&["entries"]).take(defaults::CATALOGUE_ENTRIES) {
            let (Some(version), Some(method), Some(answer)) =
                (entry.get_str(&["version"]), entry.get_str(&["method"]), entry.get(&["answer"]))
            else {
                continue;
            };
            let key = CacheKey {
                version: version.into_owned(),
                method: Method::from_name(&method),
                cursor: entry.get_str(&["cursor"]).map(Cow::into_owned),
            };
            // An entry without an age counts as infinitely old.
            let age = entry.get(&["ageMs"]).and_then(number).unwrap_or(u64::MAX);
            let Ok(answer) = Message::parse(Bytes::copy_from_slice(answer)) else { continue };
            entries.extend(Entry::try_new(key, answer, Duration::from_millis(age)));
        }
        Ok(ListCache { entries, slowest_start })
    }
}

pub(crate) fn error_code(answer: &Message) -> Option<i64> {
    std::str::from_utf8(answer.get(&["code"])?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(version: &str, method: Method, cursor: Option<&str>, answer: &str) -> Option<Entry> {
        let key = CacheKey { version: version.into(), method, cursor: cursor.map(str::to_owned) };
        let answer = Message::parse(Bytes::copy_from_slice(answer.as_bytes())).unwrap();
        Entry::try_new(key, answer, Duration::from_millis(5))
    }

    #[test]
    fn written_cache_reads_back_byte_for_byte() {
        let tools = "{ \"jsonrpc\":\"2.0\",\t \"id\" : 7, \"result\":{\"tools\":[ {\"name\":\"a\\u0062\"} ],\"x\":1e3,\"nextCursor\":\"\\\"é\"}}";
        let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
        let kept = ListCache::new(vec![
            entry("2025-11-25", Method::Initialize, None, hello).unwrap(),
            entry("2025-11-25", Method::ToolsList, Some("\"é\n"), tools).unwrap(),
        ]);
        let mut kept = kept;
        kept.slowest_start = Some(Duration::from_millis(1_250));
        let mut read = ListCache::read(&kept.write()).unwrap();
        assert_eq!(read.slowest_start, kept.slowest_start);
        read.grow_older(Duration::from_secs(1));
        let read = read.into_entries();
        assert_eq!(read.len(), 2);
        assert_eq!(
            read[1].answer.text(),
            &tools.replace('\n', " "),
            "as it came, spaces and escapes and all, on one line"
        );
        assert_eq!(read[1].key.cursor.as_deref(), Some("\"é\n"));
        assert_eq!(read[0].age, Duration::from_millis(1005));
    }

    #[test]
    fn tool_names_are_listed_once() {
        let list = |names: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{names}]}}}}"#);
        let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","tools":[{"name":"no"}]}}"#;
        let kept = ListCache::new(vec![
            entry("2025-11-25", Method::Initialize, None, hello).unwrap(),
            entry("2025-11-25", Method::ToolsList, None, &list(r#"{"name":"a\u0062"},{},{"name":7},3"#)).unwrap(),
            entry("2025-11-25", Method::ToolsList, Some("2"), &list(r#"{"name":"c"}"#)).unwrap(),
            entry("2025-06-18", Method::ToolsList, None, &list(r#"{"name":"ab"}"#)).unwrap(),
        ]);
        assert_eq!(kept.tools(), ["ab", "c"]);
    }

    #[test]
    fn only_valid_answers_are_cached() {
        let list = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#;
        let other = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":{}}}"#;
        let unknown = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}"#;
        let broken = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"?"}}"#;
        assert!(entry("v", Method::ToolsList, None, list).is_some());
        assert!(entry("v", Method::ToolsList, None, other).is_none());
        assert!(entry("v", Method::PromptsList, None, list).is_none());
        assert!(entry("v", Method::ToolsCall, None, list).is_none());
        assert!(entry("v", Method::Initialize, None, list).is_none());
        assert!(entry("v", Method::Discover, None, unknown).is_some());
        assert!(entry("v", Method::Discover, None, broken).is_none());
        assert!(entry("v", Method::ToolsList, None, unknown).is_none());
    }

    #[test]
    fn invalid_cache_is_refused_and_invalid_entries_are_skipped() {
        for text in ["", "{}", "[]", r#"{"jsonrpc":"2.0","method":"other","params":{"entries":[]}}"#] {
            assert!(ListCache::read(text.as_bytes()).is_err(), "{text}");
        }
        let text = r#"{"jsonrpc":"2.0","method":"catalogue","params":{"entries":[1,{"version":"v"},
            {"version":"v","method":"tools/call","answer":{"jsonrpc":"2.0","id":1,"result":{}}},
            {"version":"v","method":"tools/list","answer":{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}}]}}"#;
        let read = ListCache::read(text.as_bytes()).unwrap().into_entries();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].age, Duration::from_millis(u64::MAX), "an entry without age is infinitely old");
    }

    proptest! {
        #[test]
        fn reading_arbitrary_text_never_panics(text in ".{0,300}", cut in 0usize..400) {
            let _ = ListCache::read(text.as_bytes());
            let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
            let whole = ListCache::new(vec![entry("v", Method::Initialize, None, hello).unwrap()]).write();
            let short = &whole[..cut.min(whole.len() - 1)];
            prop_assert!(ListCache::read(short).is_err(), "a truncated cache is refused");
        }
    }
}
