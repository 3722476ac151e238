//! Messages pass byte for byte, in both eras and at any size.

use serde_json::json;

use crate::support::{Bridge, SOON, Setup, eventually};

#[test]
fn odd_but_valid_json_comes_back_byte_for_byte() {
    let mut bridge = Bridge::around(&[]);
    let odd = [
        r#"{"z":1,"a":2,"unknown":{"deep":[{"er":null}]}}"#,
        r#"{"n":1e3,"f":1.0,"neg":-0,"big":123456789012345678901234567890}"#,
        r#"{"text":"\u0041\/\u00e4 \ud83e\udd80 \\ \" \u0000","":"empty key"}"#,
        "{ \"spaced\" :\t[ 1 , 2 ] }",
        r#"[1,"array params",{}]"#,
    ];
    for params in odd {
        bridge.send(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"demo/echo","params":{params}}}"#));
        assert_eq!(bridge.line(), format!(r#"{{"jsonrpc":"2.0","id":7,"result":{params}}}"#));
    }
}

#[test]
fn request_id_is_returned_verbatim() {
    let mut bridge = Bridge::around(&[]);
    for id in [r#""a\u0041""#, "1e3", "1.0", "-5", "98765432109876543210", r#""""#, r#""7""#, "7"] {
        bridge.send(&format!(r#"{{"method":"ping","id":{id},"jsonrpc":"2.0"}}"#));
        assert_eq!(bridge.line(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

#[test]
fn modern_client_needs_no_handshake() {
    let mut bridge = Bridge::start(Setup::default());
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    bridge.request("d", "server/discover", &json!({ "_meta": meta }));
    assert_eq!(bridge.answer("d")["result"]["supportedVersions"], json!(["2026-07-28"]));
    bridge.request("c", "tools/call", &json!({ "name": "lookup", "arguments": { "key": "k" }, "_meta": meta }));
    assert_eq!(bridge.answer("c")["result"]["content"][0]["text"], "k is 42");
    assert!(!bridge.ledger().contains("initialize"));
}

#[test]
fn server_error_passes_unchanged() {
    let mut bridge = Bridge::around(&[]);
    bridge.request("x", "no/such/method", &json!({}));
    let error = &bridge.answer("x")["error"];
    assert_eq!(error, &json!({ "code": -32601, "message": "no method no/such/method" }));
}

#[test]
fn large_result_arrives_complete() {
    let mut bridge = Bridge::around(&[]);
    let bytes = 8 << 20;
    let result = bridge.result("big", "big", &json!({ "key": "k", "bytes": bytes }));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), bytes);
    assert!(text.bytes().all(|byte| byte == b'x'));
}

#[test]
fn progress_arrives_in_order_with_client_token() {
    let mut bridge = Bridge::around(&[]);
    let arguments = json!({ "key": "k", "steps": 4, "stepMs": 1 });
    bridge.request(
        "s",
        "tools/call",
        &json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": "tök" } }),
    );
    for step in 1..=4 {
        let notice: serde_json::Value = serde_json::from_str(&bridge.line()).unwrap();
        assert_eq!(notice["params"], json!({ "progressToken": "tök", "progress": step, "total": 4 }));
    }
    assert_eq!(bridge.answer("s")["result"]["content"][0]["text"], "k is done");
}

#[test]
fn cancelled_call_is_cancelled_at_server() {
    let mut bridge = Bridge::around(&[]);
    bridge.call("s", "slow", &json!({ "key": "k", "steps": 1000, "stepMs": 5 }));
    eventually("the call runs", SOON, || bridge.executions("slow", "k") == 1);
    bridge.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}"#);
    eventually("the server gets the cancellation", SOON, || bridge.ledger().contains("cancelled "));
    // No later line may answer the cancelled call.
    bridge.request("p", "ping", &json!({}));
    let next: serde_json::Value = serde_json::from_str(&bridge.line()).unwrap();
    assert_eq!(next["id"], "p");
}
