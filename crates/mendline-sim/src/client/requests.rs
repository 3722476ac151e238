//! The messages of a client.
//!
//! They use every kind of id and token that JSON-RPC allows, any member order, and numbers that a re-serialiser would
//! change. The server must receive them byte for byte, except for the id and the progress token.

use bytes::Bytes;
use mendline_wire::{Id, Method};

use super::expected_state::Change;
use super::workload::WorkItem;
use super::{Client, RequestSpec};
use crate::oracle::{Key, Oracle, Record};
use crate::server::Era;

pub(super) fn cancelled(id: &Id) -> Bytes {
    let raw = String::from_utf8_lossy(id.as_bytes());
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{raw},"reason":"changed my mind"}}}}"#
    ))
}

fn is_change(method: &str) -> bool {
    matches!(method, "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe")
}

/// Returns the change of session state that a request asks for.
fn change_in(method: &str, params: &str) -> Option<Change> {
    let quoted = |name: &str| {
        let rest = params.split(&format!("\"{name}\":\"")).nth(1)?;
        Some(rest.split('"').next()?.to_owned())
    };
    match method {
        "logging/setLevel" => quoted("level").map(Change::Level),
        "resources/subscribe" => quoted("uri").map(|uri| Change::Subscription(uri, true)),
        "resources/unsubscribe" => quoted("uri").map(|uri| Change::Subscription(uri, false)),
        _ => None,
    }
}

impl Client {
    /// Performs one item of the workload.
    pub(super) fn perform(&mut self, item: WorkItem, oracle: &mut Oracle) {
        match item {
            // The next change waits until the last one is settled.
            WorkItem::Request(spec)
                if is_change(spec.method) && self.workload.varied && self.expected.is_changing() => {}
            WorkItem::Request(spec) => {
                self.send_request(spec, oracle);
            }
            WorkItem::Cancel => {
                let open: Vec<Key> = self.open_keys().collect();
                if !open.is_empty() {
                    let key = *self.rng.pick(&open);
                    // Only the fact of the cancellation matters, not its time.
                    self.cancel(key, mendline_core::Moment::ZERO, oracle);
                }
            }
            WorkItem::Notify => {
                let line = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
                self.outbox.push_back((line, Vec::new()));
            }
        }
    }

    /// Returns a new id in one of the forms that clients use.
    pub(super) fn new_id(&mut self) -> String {
        self.counter += 1;
        let n = self.counter;
        if !self.odd {
            return n.to_string();
        }
        match self.rng.below(8) {
            0 => format!("\"a-{n}\""),
            1 => format!("\"\\u0061\\/{n}\""),
            2 => format!("{}", 9_007_199_254_740_993_u64 + u64::from(n)),
            3 => format!("1234567890123456789012345678901234567890{n}"),
            4 => format!("-{n}"),
            5 => format!("\"{n}\""),
            6 => format!("\"ключ {n} 😀\""),
            _ => n.to_string(),
        }
    }

    /// Encodes a request and opens its record.
    pub(super) fn write_request(&mut self, spec: RequestSpec, id: &str, oracle: &mut Oracle) -> (Bytes, Key) {
        let key = oracle.next_key();
        let wants_progress = spec.method == "tools/call" && self.rng.percent(40);
        let token = wants_progress.then(|| self.new_token(key));
        let params = self.params(spec, key, token.as_deref());
        let line = self.envelope(spec.method, id, &params);
        if let Some(change) = change_in(spec.method, &params) {
            self.expected.begin_change(key, change);
        }
        let token = token.map(Bytes::from);
        let record = Record {
            client: self.id,
            upstream: self.upstream,
            id: Id::from_raw(id.as_bytes()),
            method: Method::from_name(spec.method),
            what: spec.tool.unwrap_or(spec.method),
            effect: spec.effect,
            params: Bytes::from(params),
            token: token.clone(),
            twin: self.waiting.contains_key(&Id::from_raw(id.as_bytes())),
            arrived: None,
            progressed: None,
            terms: None,
            suspended: std::time::Duration::ZERO,
            cancelled: None,
            answers: 0,
            verdict: None,
            whole: 0,
            refused_for_credential: 0,
            refused: 0,
            overloaded: 0,
            harmless: 0,
            reported_session_lost: 0,
            runs: 0,
            replies: Vec::new(),
        };
        oracle.open(record);
        let under_it = self.waiting.entry(Id::from_raw(id.as_bytes())).or_default();
        under_it.iter().for_each(|twin| oracle.of_mut(*twin).twin = true);
        under_it.push(key);
        if let Some(token) = token {
            self.tokens.insert(token, key);
        }
        (line, key)
    }

    fn new_token(&mut self, key: Key) -> String {
        match self.rng.below(3) {
            0 => format!("\"t-{}\"", key.0),
            1 => format!("\"\\u0074{}\"", key.0),
            _ => (u64::from(key.0) + 1_000_000).to_string(),
        }
    }

    fn params(&mut self, spec: RequestSpec, key: Key, token: Option<&str>) -> String {
        let mut meta = format!("\"sim/key\":{}", key.0);
        if let Some(token) = token {
            meta = if self.rng.percent(50) {
                format!("{meta},\"progressToken\":{token}")
            } else {
                format!("\"progressToken\" : {token} ,{meta}")
            };
        }
        if self.era == Era::Modern {
            meta.push_str(r#","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#);
        }
        let own = match spec.method {
            "tools/call" if spec.continues => format!(
                r#""name":"{}","inputResponses":{{"name":{{"n":{}}}}},"requestState":"state""#,
                spec.tool.unwrap_or("read_note"),
                key.0
            ),
            "tools/call" => format!(
                r#""name":"{}","arguments":{{"n":{}.50e+1,"text":"\u00e9\/x"}}"#,
                spec.tool.unwrap_or("read_note"),
                key.0
            ),
            "initialize" => {
                // Half of the clients give up early, so that their grace is short.
                let name = if key.0.is_multiple_of(2) { "codex-sim" } else { "sim" };
                format!(
                    r#""protocolVersion":"2025-11-25","capabilities":{{"sampling":{{}},"roots":{{}},"elicitation":{{}}}},"clientInfo":{{"name":"{name}","version":"0"}}"#
                )
            }
            "resources/subscribe" | "resources/unsubscribe" if self.workload.varied => {
                format!(r#""uri":"note:{}""#, self.rng.below(12))
            }
            "logging/setLevel" if self.workload.varied => {
                format!(r#""level":"{}""#, self.rng.pick(&["debug", "info", "warning", "error"]))
            }
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => r#""uri":"note:1""#.into(),
            "prompts/get" => r#""name":"p""#.into(),
            "logging/setLevel" => r#""level":"info""#.into(),
            "subscriptions/listen" => r#""notifications":{"toolsListChanged":true}"#.into(),
            _ => r#""later":[1.0,null]"#.into(),
        };
        if self.workload.plain && (spec.method.ends_with("/list") || spec.method == "server/discover") {
            // A list request with other parameters is never answered from the cache.
            return format!("{{\"_meta\":{{{meta}}}}}");
        }
        if self.odd && self.rng.percent(50) {
            format!("{{ {own} , \"_meta\":{{{meta}}},\"x\\u0079\":1E2}}")
        } else {
            format!("{{\"_meta\":{{{meta}}},{own}}}")
        }
    }

    fn envelope(&mut self, method: &str, id: &str, params: &str) -> Bytes {
        let style = if self.odd { self.rng.below(4) } else { 0 };
        Bytes::from(match style {
            1 => format!(r#"{{"id":{id},"params":{params},"method":"{method}","jsonrpc":"2.0"}}"#),
            2 => format!(r#"{{ "jsonrpc": "2.0", "method" : "{method}" , "params" : {params} , "id": {id} }}"#),
            3 => {
                let escaped = method.replace('/', "\\/");
                format!(r#"{{"jsonrpc":"2.0","extra":{{"id":9}},"id":{id},"method":"{escaped}","params":{params}}}"#)
            }
            _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        })
    }
}
