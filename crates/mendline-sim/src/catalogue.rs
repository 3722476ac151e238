//! Cached catalogues: what an engine has stored of its servers before a world begins, and what it may answer from the
//! cache later.
//!
//! A catalogue has the form that an earlier engine would have stored: the handshake of the era and the lists of one
//! edition. Each entry names its server, so that the client can detect an entry of another server.

use bytes::Bytes;
use mendline_core::ListCache;
use mendline_wire::{Message, Method};

use crate::server::Era;

/// The cached catalogue of one upstream.
#[derive(Clone, Debug)]
pub struct CachedCatalogue {
    /// The name of the server.
    pub name: String,
    /// The era of the server.
    pub era: Era,
    /// The edition of its lists.
    pub edition: u32,
}

impl CachedCatalogue {
    /// Returns the catalogue in its stored form.
    pub fn to_core(&self) -> ListCache {
        let version = match self.era {
            Era::Legacy => "2025-11-25",
            Era::Modern => "2026-07-28",
        };
        let entry = |(method, body): (&str, Bytes)| {
            let body = String::from_utf8_lossy(&body).into_owned();
            format!(
                r#"{{"version":"{version}","method":"{method}","ageMs":3600000,"answer":{{"jsonrpc":"2.0","id":7,"result":{body}}}}}"#
            )
        };
        let entries: Vec<String> = self.answers().into_iter().map(entry).collect();
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"catalogue","params":{{"entries":[{}]}}}}"#, entries.join(","));
        ListCache::read(text.as_bytes()).unwrap_or_default()
    }

    /// Returns the cached results by method.
    pub fn answers(&self) -> Vec<(&'static str, Bytes)> {
        let CachedCatalogue { name, edition, .. } = self;
        let mut answers = vec![
            (
                "tools/list",
                format!(
                    r#"{{"of":"{name}","tools":[{{"name":"read_note","annotations":{{"readOnlyHint":true}}}},{{"name":"create_note","description":"edition {edition}"}}]}}"#
                ),
            ),
            (
                "prompts/list",
                format!(r#"{{ "of":"{name}","prompts":[{{"name":"p","description":"edition {edition}"}}]}}"#),
            ),
            (
                "resources/list",
                format!(r#"{{"of":"{name}","resources":[{{"uri":"note:1","name":"edition {edition}"}}]}}"#),
            ),
        ];
        answers.push(match self.era {
            Era::Legacy => (
                "initialize",
                format!(
                    r#"{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{"listChanged":true}},"logging":{{}}}},"serverInfo":{{"name":"{name}","version":"0.9"}}}}"#
                ),
            ),
            Era::Modern => (
                "server/discover",
                format!(
                    r#"{{"of":"{name}","resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},"ttlMs":0,"cacheScope":"private"}}"#
                ),
            ),
        });
        answers.into_iter().map(|(method, text)| (method, Bytes::from(text))).collect()
    }
}

/// Returns whether two bodies are equal except for `ttlMs`, which Mendline may add.
pub fn is_same_but_for_ttl(received: &[u8], written: &[u8]) -> bool {
    received == written || without_time(received).is_some_and(|received| Some(received) == without_time(written))
}

/// Returns a body without `ttlMs`, which Mendline adds as the last member.
fn without_time(body: &[u8]) -> Option<Vec<u8>> {
    let text = [br#"{"jsonrpc":"2.0","id":1,"result":"#, body, b"}"].concat();
    let message = Message::parse(Bytes::from(text)).ok()?;
    let whole = message.value()?;
    let mut members: Vec<Vec<u8>> = Vec::new();
    for (name, value) in whole.members() {
        if name.as_str().as_deref() != Some("ttlMs") {
            members.push([name.raw(), b":", value.raw()].concat());
        }
    }
    Some(members.join(&b','))
}

/// Returns whether answers to this method can come from the cache.
pub fn is_cacheable(method: Method) -> bool {
    matches!(
        method,
        Method::Initialize
            | Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourcesTemplatesList
    )
}

/// Returns whether the body is a provisional result of `initialize`.
pub fn is_provisional(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    text.contains(r#""protocolVersion":"2025-11-25""#) && text.contains(r#""version":"provisional""#)
}
