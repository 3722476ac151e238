//! The tool and the resource of Mendline itself, in the lists of a client that wants them (`ownTools`).
//!
//! A model, or a person inside of a client, can so ask for the state of the server. Mendline answers by itself, also while
//! the server is away. The entries are added where an answer leaves for the client, so that lists are compared, cached and
//! resynchronized without them. They are added at the end of the last page and are always the same bytes, so a list that
//! is stable stays stable.
//!
//! A server may have a tool of that name. Then the server's tool is the only one, and a warning says so.

use bytes::Bytes;
use mendline_wire::{Kind, Message, Method, Patch, Span, code, edit};
use serde_json::json;

use crate::config::UpstreamConfig;
use crate::event::{LinkState, Over};
use crate::policy::breaker::BreakerState;
use crate::request::{ClientRequest, Era, ListKind, Op};
use crate::status::UpstreamStatus;

/// The name of the tool.
pub const TOOL: &str = "mendline_status";

/// The URI of the resource.
pub const RESOURCE: &str = "mendline://status";

const TOOL_ENTRY: &str = r#"{"name":"mendline_status","title":"Mendline status","description":"Returns the state of this MCP server as Mendline, the proxy before it, sees it: whether it is available, since when it had problems, and what to do about them. Call it when tools of this server fail or are missing.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;
const RESOURCE_ENTRY: &str = r#"{"uri":"mendline://status","name":"mendline_status","title":"Mendline status","description":"The state of this MCP server as Mendline sees it.","mimeType":"text/plain"}"#;

/// The members that a list of the modern era must have. The server may get tools with a new version, so it is not fresh.
const CACHED: &str = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;

/// What one client knows about the names.
#[derive(Debug, Default)]
pub struct OwnTools {
    /// The server has a tool of that name.
    is_tool_taken: bool,
    /// The server has a resource of that URI.
    is_resource_taken: bool,
    /// The era of the last request for a list. All requests of a client have the same.
    era: Option<Era>,
}

/// The change of an answer.
#[derive(Debug)]
pub enum Addition {
    /// The answer stays.
    None,
    /// This is inserted.
    Insert(Span, Patch),
    /// The server does not know the list; this is the result.
    Instead(Message),
    /// The server has an entry of that name.
    Taken,
}

impl OwnTools {
    /// Returns whether a request is about the tool or the resource of Mendline.
    pub fn is_own(&self, request: &ClientRequest) -> bool {
        match request.op {
            Op::CallTool => !self.is_tool_taken && request.tool().as_deref() == Some(TOOL),
            Op::Read => !self.is_resource_taken && request.message.get_str(&["uri"]).as_deref() == Some(RESOURCE),
            _ => false,
        }
    }

    /// Begins a list anew, if this is its first page.
    pub fn note_request(&mut self, request: &ClientRequest) {
        if let Op::List(_) = request.op {
            self.era = Some(request.era);
        }
        let is_first = || matches!(request.message.get(&["cursor"]), None | Some(b"null"));
        match request.op {
            Op::List(ListKind::Tools) if is_first() => self.is_tool_taken = false,
            Op::List(ListKind::Resources) if is_first() => self.is_resource_taken = false,
            _ => {}
        }
    }

    /// Returns the change of an answer to this method.
    pub fn addition(&mut self, method: Method, answer: &Message) -> Addition {
        let is_modern = self.era == Some(Era::Modern);
        match Op::of(method) {
            Op::Initialize | Op::Discover => match capabilities(answer) {
                Some((at, patch)) => Addition::Insert(at, patch),
                None => Addition::None,
            },
            Op::List(ListKind::Tools) if is_unknown(answer) => instead("tools", TOOL_ENTRY, is_modern),
            Op::List(ListKind::Resources) if is_unknown(answer) => instead("resources", RESOURCE_ENTRY, is_modern),
            Op::List(ListKind::Tools) => list(answer, ("tools", "name", TOOL), TOOL_ENTRY, &mut self.is_tool_taken),
            Op::List(ListKind::Resources) => {
                list(answer, ("resources", "uri", RESOURCE), RESOURCE_ENTRY, &mut self.is_resource_taken)
            }
            _ => Addition::None,
        }
    }
}

/// Returns whether a page of a list has an entry with this name.
pub fn has_tool(page: &Message) -> bool {
    has(page, "tools", "name", TOOL)
}

fn has(page: &Message, list: &str, key: &str, name: &str) -> bool {
    page.elements(&[list]).any(|entry| entry.get_str(&[key]).as_deref() == Some(name))
}

/// Returns whether the server does not know the method, as a server without tools or resources. Any other error is that
/// of the server.
fn is_unknown(answer: &Message) -> bool {
    answer.kind() == Kind::Error && answer.get(&["code"]) == Some(code::METHOD_NOT_FOUND.to_string().as_bytes())
}

/// Returns the list of a server that has none.
fn instead(member: &str, entry: &str, is_modern: bool) -> Addition {
    let cached = if is_modern { format!(",{CACHED}") } else { String::new() };
    let text = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"{member}":[{entry}]{cached}}}}}"#);
    Message::parse(Bytes::from(text)).map_or(Addition::None, Addition::Instead)
}

/// Adds an entry to the last page of a list.
fn list(page: &Message, (member, key, name): (&str, &str, &str), entry: &str, is_taken: &mut bool) -> Addition {
    if page.kind() == Kind::Error {
        return Addition::None;
    }
    let was_taken = *is_taken;
    *is_taken |= has(page, member, key, name);
    if *is_taken {
        return if was_taken { Addition::None } else { Addition::Taken };
    }
    if !matches!(page.get(&["nextCursor"]), None | Some(b"null")) {
        return Addition::None;
    }
    let Some(entries) = page.value().and_then(|body| body.at(&[member])).filter(|it| it.raw().starts_with(b"[")) else {
        return Addition::None;
    };
    let comma = if entries.elements(&[]).next().is_some() { "," } else { "" };
    Addition::Insert(Span::at(entries.span().end - 1), Patch::from(format!("{comma}{entry}").as_bytes()))
}

/// Adds the capabilities that a client needs to ask for the entries.
fn capabilities(answer: &Message) -> Option<(Span, Patch)> {
    if answer.kind() != Kind::Result {
        return None;
    }
    let missing = |name: &&str| !matches!(answer.get(&["capabilities", name]), Some(raw) if raw.starts_with(b"{"));
    let wanted: Vec<&str> = ["tools", "resources"].into_iter().filter(missing).collect();
    let members = wanted.iter().map(|name| format!(r#""{name}":{{}}"#)).collect::<Vec<_>>().join(",");
    let existing = answer.value().and_then(|body| body.at(&["capabilities"])).filter(|it| it.raw().starts_with(b"{"));
    match existing {
        _ if wanted.is_empty() => None,
        Some(object) => {
            let comma = if object.members().next().is_some() { "," } else { "" };
            Some((Span::at(object.span().end - 1), Patch::from(format!("{comma}{members}").as_bytes())))
        }
        None => edit::member(answer, &[], "capabilities", format!("{{{members}}}").as_bytes()),
    }
}

/// Returns the answer to a request about the tool or the resource.
pub fn answer(request: &ClientRequest, text: &str) -> Option<Message> {
    let mut result = match request.op {
        Op::Read => json!({ "contents": [{ "uri": RESOURCE, "mimeType": "text/plain", "text": text }] }),
        _ => json!({ "content": [{ "type": "text", "text": text }] }),
    };
    if request.is_modern() {
        result["resultType"] = json!("complete");
        if request.op == Op::Read {
            (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
        }
    }
    let text = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{result}}}"#);
    Message::parse(Bytes::from(text)).ok()
}

/// Describes the state of a server.
pub fn describe(config: &UpstreamConfig, status: &UpstreamStatus) -> String {
    let name = &config.name;
    let mut lines = vec![format!("Server {name:?}: {}.", state(status))];
    match status.over {
        Some(Over::Child(pid)) if status.child().is_some() => lines.push(format!("It runs as process {pid}.")),
        Some(Over::Http | Over::Sse) => lines.push(format!("It is at {}.", config.place)),
        _ => {}
    }
    if let Some(redial) = &status.redial {
        let most = redial.most.map(|most| format!(" of {most}")).unwrap_or_default();
        lines.push(format!("Reconnect attempt {}{most} is planned or in progress.", redial.attempt));
    }
    let calls = &status.tool_calls;
    lines.push(format!(
        "Tool calls: {} ok, {} with a tool error, {} with an error, {} failed, {} with an unknown outcome, {} rejected; {} open now.",
        calls.ok, calls.tool_errors, calls.errors, calls.failed, calls.unknown, calls.rejected, status.open
    ));
    lines.push(format!(
        "Recovered: {} lost connections, {} retried attempts, {} resumed responses.",
        status.losses, status.retried, status.resumed
    ));
    if let Some(error) = &status.last_error {
        lines.push(format!("Last error: {error}."));
    }
    for (tool, breaker) in &status.tools {
        lines.push(format!("The circuit breaker of the tool {tool:?} is {}.", breaker_state(breaker.state)));
    }
    if let Some(step) = next_step(name, status) {
        lines.push(step);
    }
    lines.join("\n")
}

fn state(status: &UpstreamStatus) -> &'static str {
    if status.needs_login.is_some() {
        return "needs a login";
    }
    match (status.breaker.state, status.link) {
        (BreakerState::Isolated, _) => "taken out of service by the operator",
        (_, LinkState::Up) if status.ready => "available",
        (_, LinkState::Up | LinkState::Dialing) if !status.lost => "starting",
        (_, LinkState::Parked) => "not available; Mendline tries it now and then, and with the next call",
        (_, LinkState::Idle) => "not connected; the next call connects it",
        _ => "not available; Mendline is reconnecting",
    }
}

fn breaker_state(state: BreakerState) -> &'static str {
    match state {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open: its calls are rejected for a while",
        BreakerState::HalfOpen => "half open: the next call is a trial",
        BreakerState::Isolated => "isolated",
    }
}

fn next_step(name: &str, status: &UpstreamStatus) -> Option<String> {
    if status.needs_login.is_some() {
        return Some(format!("Ask the user to run `mendline login {name}` or `mendline doctor {name}`."));
    }
    match (status.breaker.state, status.link) {
        (BreakerState::Isolated, _) => Some(format!("Ask the user to run `mendline resume {name}`.")),
        (_, LinkState::Parked) => Some(format!("Ask the user to run `mendline doctor {name}`.")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mendline_wire::Spliced;

    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(Bytes::from(text.to_owned())).unwrap()
    }

    fn result(body: &str) -> Message {
        message(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{body}}}"#))
    }

    fn changed(own: &mut OwnTools, method: Method, body: &str) -> String {
        let answer = result(body);
        match own.addition(method, &answer) {
            Addition::Insert(at, patch) => {
                let bytes = Spliced::new(answer.text().clone(), [(at, patch)]).to_bytes();
                let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                value["result"].to_string()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn entry_is_added_to_the_last_page_only() {
        let mut own = OwnTools::default();
        let names = |text: &str| text.matches("\"name\":").count();
        assert_eq!(names(&changed(&mut own, Method::ToolsList, r#"{"tools":[]}"#)), 1);
        assert_eq!(names(&changed(&mut own, Method::ToolsList, r#"{"tools":[{"name":"a"}],"nextCursor":null}"#)), 2);
        assert_eq!(changed(&mut own, Method::ToolsList, r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#), "None");
        assert!(changed(&mut own, Method::ResourcesList, r#"{"resources":[ ]}"#).contains(RESOURCE));
        assert_eq!(changed(&mut own, Method::PromptsList, r#"{"prompts":[]}"#), "None");
        assert_eq!(changed(&mut own, Method::ToolsList, r#"{"tools":"odd"}"#), "None");
    }

    #[test]
    fn tool_of_the_server_wins_on_whatever_page_it_is() {
        let mut own = OwnTools::default();
        let ask = |cursor: &str| {
            let params = if cursor.is_empty() { "{}".to_owned() } else { format!(r#"{{"cursor":"{cursor}"}}"#) };
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#);
            ClientRequest::new(message(&text))
        };
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mendline_status"}}"#;
        let call = ClientRequest::new(message(call));
        assert!(own.is_own(&call));
        own.note_request(&ask(""));
        let first = r#"{"tools":[{"name":"mendline_status"}],"nextCursor":"2"}"#;
        assert_eq!(changed(&mut own, Method::ToolsList, first), "Taken");
        own.note_request(&ask("2"));
        assert_eq!(changed(&mut own, Method::ToolsList, r#"{"tools":[]}"#), "None");
        assert!(!own.is_own(&call), "the server's tool is called");
        own.note_request(&ask(""));
        assert!(changed(&mut own, Method::ToolsList, r#"{"tools":[]}"#).contains(TOOL), "the server has removed it");
    }

    #[test]
    fn server_without_tools_gets_the_capability_and_a_list() {
        let mut own = OwnTools::default();
        for (body, expected) in [
            (r#"{"capabilities":{}}"#, r#"{"capabilities":{"resources":{},"tools":{}}}"#),
            (
                r#"{"capabilities":{"tools":{"listChanged":true}}}"#,
                r#"{"capabilities":{"resources":{},"tools":{"listChanged":true}}}"#,
            ),
            (r#"{"protocolVersion":"x"}"#, r#"{"capabilities":{"resources":{},"tools":{}},"protocolVersion":"x"}"#),
            (r#"{"capabilities":{"tools":{},"resources":{}}}"#, "None"),
        ] {
            assert_eq!(changed(&mut own, Method::Initialize, body), expected, "{body}");
        }
        let unknown = message(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#);
        let Addition::Instead(list) = own.addition(Method::ToolsList, &unknown) else { panic!("no list") };
        assert!(has_tool(&list));
        let other = message(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}"#);
        assert!(matches!(own.addition(Method::ToolsList, &other), Addition::None));
    }

    #[test]
    fn list_in_place_of_an_error_has_the_members_of_its_era() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let unknown = message(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#);
        for (params, expected) in [(meta, [json!("complete"), json!(0), json!("private")]), ("", Default::default())] {
            for (name, method) in [("tools/list", Method::ToolsList), ("resources/list", Method::ResourcesList)] {
                let mut own = OwnTools::default();
                let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":{{{params}}}}}"#);
                own.note_request(&ClientRequest::new(message(&text)));
                let Addition::Instead(list) = own.addition(method, &unknown) else { panic!("no list") };
                let value: serde_json::Value = serde_json::from_slice(list.text()).unwrap();
                let members = ["resultType", "ttlMs", "cacheScope"].map(|key| value["result"][key].clone());
                assert_eq!(members, expected, "{name}: {value}");
            }
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{RESOURCE}"{}{params}}}}}"#,
                if params.is_empty() { "" } else { "," }
            );
            let read = answer(&ClientRequest::new(message(&text)), "ok").unwrap();
            let value: serde_json::Value = serde_json::from_slice(read.text()).unwrap();
            let members = ["resultType", "ttlMs", "cacheScope"].map(|key| value["result"][key].clone());
            assert_eq!(members, expected, "{value}");
        }
    }

    #[test]
    fn entries_are_valid_and_have_their_names() {
        let tool: serde_json::Value = serde_json::from_str(TOOL_ENTRY).unwrap();
        let resource: serde_json::Value = serde_json::from_str(RESOURCE_ENTRY).unwrap();
        assert_eq!((tool["name"].as_str(), resource["uri"].as_str()), (Some(TOOL), Some(RESOURCE)));
    }
}
