//! The messages of a server.
//!
//! With `odd`, messages use unusual but valid JSON: another member order, additional whitespace, numbers and escapes
//! that a re-serialiser would change. All of it must pass through unchanged. Every message carries a stamp (child and
//! line), so that the receiver can check order and duplicates.

use std::fmt::Write;

use bytes::Bytes;
use mendline_wire::{Id, Method};

use crate::fact::Stamp;
use crate::oracle::Key;
use crate::rng::Rng;
use crate::server::ServerProfile;

/// The tools of every server: a read, an idempotent tool and an unsafe one. The last one requests an argument as a
/// header.
pub(super) const TOOLS: &str = r#"{"tools":[{"name":"read_note","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"put_note","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":true}},{"name":"create_note","description":"caf\u00e9","inputSchema":{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}}]}"#;

pub(super) fn with_stamp(body: &str, stamp: Stamp) -> String {
    let mark = format!("\"sim/at\":[{},{}]", stamp.dial, stamp.line);
    match body.strip_prefix('{') {
        Some("}") | None => format!("{{\"_meta\":{{{mark}}}}}"),
        Some(rest) => format!("{{\"_meta\":{{{mark}}},{rest}"),
    }
}

pub(super) fn result(method: Method, key: Option<Key>, stamp: Stamp, profile: &ServerProfile, rng: &mut Rng) -> String {
    let ServerProfile { odd, edition, .. } = *profile;
    let body = match method {
        Method::ToolsList if edition == 0 => TOOLS.to_owned(),
        Method::ToolsList => TOOLS.replace("caf\\u00e9", &format!("edition {edition}")),
        Method::ResourcesList if edition == 0 => r#"{"resources":[{"uri":"note:1","name":"one"}]}"#.into(),
        Method::ResourcesList => format!(r#"{{"resources":[{{"uri":"note:1","name":"edition {edition}"}}]}}"#),
        Method::PromptsList if edition == 0 => r#"{"prompts":[]}"#.into(),
        Method::PromptsList => format!(r#"{{"prompts":[{{"name":"p","description":"edition {edition}"}}]}}"#),
        Method::Ping
        | Method::LoggingSetLevel
        | Method::ResourcesSubscribe
        | Method::ResourcesUnsubscribe
        | Method::SubscriptionsListen => "{}".into(),
        Method::ToolsCall => {
            let mut body = String::from(r#"{"content":[{"type":"text","text":"note "#);
            let _ = write!(body, "{}", key.map_or(0, |key| key.0));
            body.push_str(if odd {
                r#" \u00fc\/ \ud83d\ude00"} ] , "n" : 1.50E+3,"big":12345678901234567890}"#
            } else {
                r#""}]}"#
            });
            body
        }
        _ => format!(r#"{{"k":{},"x":1.0}}"#, key.map_or(0, |key| key.0)),
    };
    let body =
        if odd && body != "{}" && rng.percent(20) { body.replacen('{', "{ \"later\" : null , ", 1) } else { body };
    with_stamp(&body, stamp)
}

/// Returns the result of a modern server that requires more input.
pub(super) fn input_required(key: Option<Key>, stamp: Stamp) -> String {
    let state = key.map_or(0, |key| key.0);
    with_stamp(
        &format!(r#"{{"resultType":"input_required","inputRequests":{{"name":{{}}}},"requestState":"state {state}"}}"#),
        stamp,
    )
}

/// Returns the acknowledgement of a subscription.
pub(super) fn acknowledged(id: &Id) -> Bytes {
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{{"toolsListChanged":true}}}}}}"#
    ))
}

pub(super) fn error(code: i64, text: &str, stamp: Stamp) -> String {
    format!(r#"{{"code":{code},"message":"{text}","data":{{"sim/at":[{},{}]}}}}"#, stamp.dial, stamp.line)
}

pub(super) fn response(id: &str, member: &str, body: &str, odd: bool, rng: &mut Rng) -> Bytes {
    let style = if odd { rng.below(4) } else { 0 };
    Bytes::from(match style {
        1 => format!(r#"{{"{member}":{body},"id":{id},"jsonrpc":"2.0"}}"#),
        2 => format!(r#"{{ "jsonrpc" : "2.0" , "id" : {id} , "{member}" : {body} }}"#),
        3 => format!(r#"{{"jsonrpc":"2.0","{member}":{body},"extra":{{"id":3}},"id":{id}}}"#),
        _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{body}}}"#),
    })
}

pub(super) fn progress(token: &Bytes, so_far: u32, key: Option<Key>, stamp: Stamp) -> Bytes {
    let token = String::from_utf8_lossy(token);
    let key = key.map_or(String::from("null"), |key| key.0.to_string());
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{so_far},"_meta":{{"sim/key":{key},"sim/at":[{},{}]}}}}}}"#,
        stamp.dial, stamp.line
    ))
}

pub(super) fn notice(stamp: Stamp, rng: &mut Rng) -> Bytes {
    let (dial, line) = (stamp.dial, stamp.line);
    Bytes::from(if rng.percent(80) {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"\u00e9","_meta":{{"sim/at":[{dial},{line}]}}}}}}"#
        )
    } else {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{{"_meta":{{"sim/at":[{dial},{line}]}}}}}}"#
        )
    })
}

pub(super) fn server_request(id: &str, nonce: u32, stamp: Stamp, rng: &mut Rng) -> Bytes {
    let method = *rng.pick(&["sampling/createMessage", "roots/list", "elicitation/create"]);
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"sim/ask":{nonce},"sim/at":[{},{}]}}}}}}"#,
        stamp.dial, stamp.line
    ))
}
