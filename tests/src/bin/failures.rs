//! A stdio server whose calls and resources all fail with a failure of Mendline.
//!
//! It takes no arguments. It replaces `mendline run` and writes the same bytes. It serves both eras: a request with a
//! protocol version in `_meta` is modern.

use std::io::{BufRead, Write};

use mendline_peers::failures::{RESOURCE, TOOLS, all, response};
use mendline_wire::{Id, Method, meta};
use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let id = &request["id"];
        if id.is_null() {
            continue;
        }
        let mut text = answer(&request, &Id::from_raw(id.to_string().as_bytes()));
        text.push(b'\n');
        stdout.write_all(&text)?;
        stdout.flush()?;
    }
    Ok(())
}

fn answer(request: &Value, id: &Id) -> Vec<u8> {
    let params = &request["params"];
    let modern = params["_meta"][meta::PROTOCOL_VERSION].is_string();
    let failure = |number: Option<u64>, method: Method| {
        let number = number.and_then(|number| usize::try_from(number).ok());
        let failures = all(modern);
        number.and_then(|number| failures.get(number)).map(|failure| response(failure, id, method))
    };
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => handshake(params),
        "server/discover" if modern => json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities() }),
        "tools/list" => json!({ "tools": TOOLS.map(tool) }),
        "ping" => json!({}),
        "tools/call" => match failure(params["arguments"]["number"].as_u64(), Method::ToolsCall) {
            Some(text) => return text,
            None => json!({ "content": [] }),
        },
        "resources/read" => {
            let number = params["uri"].as_str().and_then(|uri| uri.strip_prefix(RESOURCE)).map(str::parse);
            match failure(number.and_then(Result::ok), Method::ResourcesRead) {
                Some(text) => return text,
                None => json!({ "contents": [] }),
            }
        }
        other => {
            let error = json!({ "code": -32601, "message": format!("no method {other}") });
            return json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string().into_bytes();
        }
    };
    let result = if modern { modern_result(result) } else { result };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string().into_bytes()
}

fn handshake(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": capabilities(),
        "serverInfo": { "name": "failures", "version": "1" },
    })
}

fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {} })
}

fn tool(name: &str) -> Value {
    let number = json!({ "type": "object", "properties": { "number": { "type": "integer" } } });
    let mut tool = json!({ "name": name, "description": "Fails.", "inputSchema": number });
    if name == TOOLS[1] {
        tool["outputSchema"] =
            json!({ "type": "object", "properties": { "x": { "type": "string" } }, "required": ["x"] });
    }
    tool
}

fn modern_result(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "private".into();
    result
}
