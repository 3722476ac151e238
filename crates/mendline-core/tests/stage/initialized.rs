//! A client and a child after the legacy handshake.

use std::time::Duration;

use mendline_core::port::Signal;
use mendline_core::{Output, UpstreamConfig, defaults};
use serde_json::{Value, json};

use super::Stage;

pub const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Performs the handshake.
pub fn initialize(stage: &mut Stage) {
    stage.client_sends(INITIALIZE);
    stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#);
    stage.client_reads().unwrap();
    stage.client_sends(INITIALIZED);
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
}

pub fn initialized() -> Stage {
    let mut stage = Stage::up();
    initialize(&mut stage);
    stage
}

pub fn initialized_with(change: impl FnOnce(&mut UpstreamConfig)) -> Stage {
    let mut stage = Stage::with(change);
    stage.accept_dial();
    initialize(&mut stage);
    stage
}

/// Makes a request that the server answers.
pub fn request(stage: &mut Stage, method: &str, params: &Value, result: &str) {
    stage.client_sends(&json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string());
    assert_eq!(stage.server_answers(result)["method"], method);
    assert_eq!(stage.client_reads().unwrap()["id"], 7);
}

/// Ends the child and answers the handshake of the next one.
pub fn restart(stage: &mut Stage) {
    stage.die(stage.written);
    stage.advance(Duration::from_secs(1));
    stage.accept_dial();
    assert_eq!(stage.server_answers(r#"{"protocolVersion":"2025-11-25"}"#)["method"], "initialize");
    assert_eq!(stage.server_reads().unwrap()["method"], "notifications/initialized");
}

pub fn is_killed_by_shutdown_sequence(stage: &mut Stage) -> bool {
    stage.advance(defaults::SHUTDOWN_STEP * 2);
    stage.asked.iter().any(|asked| matches!(asked, Output::Signal { signal: Signal::Kill, .. }))
}
