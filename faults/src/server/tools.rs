//! The tools of the demonstration server, and one that sends a request to the client.
//!
//! `lookup` only reads, `create_note` is unsafe to repeat, `slow` reports progress, `big` returns a large result, `ask`
//! needs input from the client. All take a `key`, under which the oracle counts their executions, and `delayMs`, the
//! time between execution and answer. `until` names a file that must exist before they answer; it is not in the list,
//! because only tests use it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mendline_wire::code;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::admitted::{Admitted, Protocol};
use super::jsonrpc;
use super::session::Call;
use super::state::ServerState;
use super::stream::Stream;

/// The time that a client has for an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest result of `big`.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// The list of tools.
pub(crate) fn list() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let number = |description: &str| json!({ "type": "integer", "description": description });
    let tool = |name: &str, description: &str, more: Value, is_read_only: bool| {
        let mut properties = json!({
            "key": text("what it is counted under"),
            "delayMs": number("how long to wait between running and answering"),
            "answer": { "type": "string", "enum": ["json", "events"], "description": "how to answer" },
        });
        if let (Some(properties), Some(more)) = (properties.as_object_mut(), more.as_object()) {
            properties.extend(more.clone());
        }
        json!({
            "name": name,
            "description": description,
            "inputSchema": { "type": "object", "properties": properties },
            "annotations": { "readOnlyHint": is_read_only },
        })
    };
    let steps = json!({ "steps": number("how many"), "stepMs": number("how long each") });
    json!([
        tool("lookup", "Looks something up.", json!({}), true),
        tool("create_note", "Writes a note.", json!({}), false),
        tool("slow", "Takes its time and says so.", steps, true),
        tool("big", "Answers at length.", json!({ "bytes": number("how long") }), true),
        tool("ask", "Needs something of the client.", json!({ "what": text("roots, sampling or elicitation") }), true),
    ])
}

/// Runs a tool. Its messages go to the stream, which it ends.
pub(crate) async fn run(state: Arc<ServerState>, admitted: Arc<Admitted>, call: Arc<Call>, stream: Arc<Stream>) {
    let tool = Tool { state: &state, admitted: &admitted, stream: &stream };
    tokio::select! {
        biased;
        () = call.cancelled() => state.oracle.record(|counts| counts.cancellations += 1),
        () = tool.run() => {}
    }
    stream.end();
    admitted.session.finish(&admitted.request.id());
}

struct Tool<'a> {
    state: &'a ServerState,
    admitted: &'a Admitted,
    stream: &'a Stream,
}

impl Tool<'_> {
    async fn run(&self) {
        let request = &self.admitted.request;
        let name = request.tool().unwrap_or_default();
        let arguments = &request.params()["arguments"];
        let key = arguments["key"].as_str().unwrap_or("-");
        if !matches!(name, "lookup" | "create_note" | "slow" | "big" | "ask") {
            self.stream.push(jsonrpc::error(&request.id(), code::INVALID_PARAMS, &format!("no tool {name}")));
            return;
        }
        self.state.oracle.executed(name, key);
        sleep(Duration::from_millis(arguments["delayMs"].as_u64().unwrap_or(0))).await;
        while arguments["until"].as_str().is_some_and(|path| !Path::new(path).exists()) {
            sleep(Duration::from_millis(5)).await;
        }
        let result = match name {
            "lookup" => text_result(&format!("{key} is 42")),
            "create_note" => text_result(&format!("wrote {key}")),
            "slow" => self.slow(key, arguments).await,
            "big" => text_result(&"x".repeat(length(arguments))),
            _ => self.ask_client(arguments).await,
        };
        self.stream.push(jsonrpc::result(&request.id(), &self.admitted.protocol.result(result)));
    }

    async fn slow(&self, key: &str, arguments: &Value) -> Value {
        let steps = arguments["steps"].as_u64().unwrap_or(5);
        for done in 1..=steps {
            sleep(Duration::from_millis(arguments["stepMs"].as_u64().unwrap_or(20))).await;
            self.admitted.progress(self.stream, done, Some(steps));
        }
        text_result(&format!("{key} is done"))
    }

    /// Asks the client in the way of the era: with a request, or with a result that requires input.
    async fn ask_client(&self, arguments: &Value) -> Value {
        let (method, params) = server_request(arguments["what"].as_str().unwrap_or("roots"));
        if self.admitted.protocol == Protocol::Modern {
            let given = &self.admitted.request.params()["inputResponses"];
            if given.is_object() {
                return text_result(&given.to_string());
            }
            return json!({
                "resultType": "input_required",
                "inputRequests": { "it": { "method": method, "params": params } },
                "requestState": "asked once",
            });
        }
        let id = self.state.next_name("ask");
        let answered = self.admitted.session.expect_answer(format!("{id:?}").into());
        self.state.oracle.record(|counts| counts.server_requests += 1);
        self.stream.push(jsonrpc::request(&id, method, &params));
        match tokio::time::timeout(CLIENT_TIMEOUT, answered).await {
            Ok(Ok(text)) => text_result(&String::from_utf8_lossy(&text)),
            _ => text_result("no answer"),
        }
    }
}

/// Returns a request to the client by its short name.
pub(crate) fn server_request(what: &str) -> (&'static str, Value) {
    let text = json!({ "type": "text", "text": "How are you?" });
    match what {
        "sampling" => {
            ("sampling/createMessage", json!({ "messages": [{ "role": "user", "content": text }], "maxTokens": 10 }))
        }
        "elicitation" => (
            "elicitation/create",
            json!({ "message": "Which?", "requestedSchema": { "type": "object", "properties": {} } }),
        ),
        _ => ("roots/list", json!({})),
    }
}

fn text_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": false })
}

fn length(arguments: &Value) -> usize {
    let bytes = arguments["bytes"].as_u64().unwrap_or(1 << 20).min(MAX_RESULT_BYTES);
    usize::try_from(bytes).unwrap_or(0)
}
