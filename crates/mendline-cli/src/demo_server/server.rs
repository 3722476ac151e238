//! The demo server on stdio: one line in, at most one line out, and a thread for each slow call.

use std::collections::HashSet;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use mendline::os::output::close_stdout;
use mendline::os::processes::crash;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::faults::{ServerFault, ServerFaults};
use super::ledger::Ledger;
use super::{LONGEST_LIFE, tools, wait_for};

/// A message. The parts that are sent back stay raw.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// A server and its state.
#[derive(Clone)]
pub(super) struct Server {
    faults: ServerFaults,
    ledger: Arc<Ledger>,
    cancelled: Arc<Mutex<HashSet<String>>>,
}

impl Server {
    pub(super) fn new(faults: ServerFaults, ledger: Ledger) -> Server {
        Server { faults, ledger: Arc::new(ledger), cancelled: Arc::default() }
    }

    /// Answers until stdin ends.
    pub(super) fn serve(&self) {
        if self.faults.has(&ServerFault::Noise) {
            write_line("demo-server 0.1 is ready, waiting for requests");
        }
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let Ok(message) = serde_json::from_str::<Message<'_>>(&line) else {
                respond("null", &json!({ "code": -32700, "message": "this is not JSON" }), "error");
                continue;
            };
            self.handle(&message);
        }
        self.ledger.note("eof");
    }

    fn handle(&self, message: &Message<'_>) {
        let Some(method) = message.method.as_deref() else { return };
        let params: Value = message.params.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null);
        let Some(id) = message.id.map(RawValue::get) else {
            if method == "notifications/cancelled"
                && let Ok(mut cancelled) = self.cancelled.lock()
            {
                self.ledger.note("cancelled");
                cancelled.insert(params["requestId"].to_string());
            }
            return;
        };
        match method {
            "initialize" => respond(id, &initialize_result(&params), "result"),
            "server/discover" => respond(id, &discovery(), "result"),
            "ping" => {
                self.ledger.note("ping");
                respond(id, &json!({}), "result");
            }
            "tools/list" => {
                let list = tools::list(self.faults.has_more_tools());
                respond(id, &if is_modern(&params) { cacheable(list) } else { list }, "result");
            }
            "tools/call" => self.call(id, params),
            // The params are sent back byte for byte.
            "demo/echo" => write_line(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#,
                message.params.map_or("{}", RawValue::get)
            )),
            _ => respond(id, &json!({ "code": -32601, "message": format!("no method {method}") }), "error"),
        }
    }

    fn call(&self, id: &str, params: Value) {
        let tool = params["name"].as_str().unwrap_or_default().to_owned();
        let number = self.ledger.count_call(&tool);
        let now = |fault: fn(usize) -> ServerFault| self.faults.has(&fault(number));
        for line in 0..self.faults.stderr_flood() {
            eprintln!("demo-server: call {number}, line {line} of a flood on stderr");
        }
        if now(ServerFault::DieBefore) {
            crash();
        }
        let arguments = &params["arguments"];
        let key = arguments["key"].as_str().unwrap_or("-").to_owned();
        let Some(text) = tools::answer(&tool, &key, arguments) else {
            respond(id, &json!({ "code": -32602, "message": format!("no tool {tool}") }), "error");
            return;
        };
        self.ledger.executed(&tool, &key);
        if now(ServerFault::DieAfter) {
            crash();
        }
        if now(ServerFault::PartialLine) {
            self.ledger.note("hit");
            write_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"ty"#));
            crash();
        }
        if now(ServerFault::CloseStdout) {
            close_stdout();
        }
        if now(ServerFault::StopReading) {
            sleep(LONGEST_LIFE);
        }
        let delay = Duration::from_millis(arguments["delayMs"].as_u64().unwrap_or(0));
        // A test that acts while a call runs ends the call by a file instead of a delay.
        let until = arguments["until"].as_str().map(PathBuf::from);
        let result = if is_modern(&params) { complete(tools::result(&text)) } else { tools::result(&text) };
        if tool != "slow" && delay.is_zero() && until.is_none() {
            self.answer(id, &result);
            return;
        }
        let (server, id) = (self.clone(), id.to_owned());
        thread::spawn(move || {
            sleep(delay);
            until.iter().for_each(|path| wait_for(path));
            if tool != "slow" || server.progress(&id, &params) {
                server.answer(&id, &result);
            }
        });
    }

    /// Reports the steps. Returns false if the call was cancelled.
    fn progress(&self, id: &str, params: &Value) -> bool {
        let steps = params["arguments"]["steps"].as_u64().unwrap_or(5);
        let step = Duration::from_millis(params["arguments"]["stepMs"].as_u64().unwrap_or(20));
        let token = &params["_meta"]["progressToken"];
        for done in 1..=steps {
            sleep(step);
            if self.cancelled.lock().is_ok_and(|cancelled| cancelled.contains(id)) {
                return false;
            }
            if !token.is_null() {
                let params = json!({ "progressToken": token, "progress": done, "total": steps });
                let notice = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
                write_line(&notice.to_string());
            }
        }
        true
    }

    fn answer(&self, id: &str, result: &Value) {
        if self.faults.has(&ServerFault::Noise) {
            write_line("debug: about to answer {\"not\": \"protocol\"}");
        }
        if self.faults.has(&ServerFault::UnknownId) {
            respond("987654321", &tools::result("not requested"), "result");
        }
        if self.faults.has(&ServerFault::Malformed) {
            write_line(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[}"#);
        }
        respond(id, result, "result");
        if self.faults.has(&ServerFault::AnswerTwice) {
            respond(id, &tools::result("and once more"), "result");
        }
    }
}

pub(super) fn initialize_result(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"].as_str().unwrap_or("2025-11-25"),
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "demo-server", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn discovery() -> Value {
    cacheable(json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }))
}

/// Returns whether a request is one of the modern era, which states its revision in every request.
fn is_modern(params: &Value) -> bool {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string()
}

/// Adds the member that every result of the modern era must have.
fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result
}

/// Adds the members of lists and discovery in the modern era as well.
fn cacheable(mut result: Value) -> Value {
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "private".into();
    complete(result)
}

fn respond(id: &str, body: &Value, member: &str) {
    write_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{body}}}"#));
}

fn write_line(text: &str) {
    write_text(&format!("{text}\n"));
}

/// Writes at once. A closed reader is ignored: stdin ends then, too.
fn write_text(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_the_modern_era_have_their_members() {
        let modern = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } });
        assert!(is_modern(&modern) && !is_modern(&json!({})) && !is_modern(&Value::Null));
        assert_eq!(complete(json!({ "content": [] })), json!({ "content": [], "resultType": "complete" }));
        let list = json!({ "tools": [], "ttlMs": 0, "cacheScope": "private", "resultType": "complete" });
        assert_eq!(cacheable(json!({ "tools": [] })), list);
    }
}
