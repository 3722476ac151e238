//! Credentials that are renewed: once for all refused requests, which are sent again once.

#![allow(clippy::unwrap_used, reason = "a panic shows where the test failed")]

mod handshakes;
mod logins;
mod permissions;
mod renewals;
#[path = "../stage/mod.rs"]
mod stage;
mod streams;

use std::time::Duration;

use mendline_core::config::{CredentialKind, Dialect};
use mendline_core::event::CredentialState;
use mendline_core::port::{Challenge, Content, ExchangeEnd, Verb};
use mendline_core::reason::{CredentialError, CutReason};
use mendline_core::status::Status;
use mendline_core::{Event, Input, LinkState, Moment, defaults};
use serde_json::Value;
use stage::http::{INITIALIZE, NOTES, SentRequest, Stage, call, complete_handshake, endpoint, modern, outcome};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
const MOMENT: Duration = Duration::from_millis(10);

fn of_kind(kind: CredentialKind) -> Stage {
    Stage::with(Dialect::Auto, |notes| {
        notes.keep_alive = None;
        notes.credential = kind;
    })
}

/// Creates an initialized stage whose credential has the number 1.
fn with_login() -> Stage {
    with_kind(CredentialKind::Login)
}

fn with_kind(kind: CredentialKind) -> Stage {
    let mut stage = of_kind(kind);
    changed(&mut stage, 1);
    stage.initialize_session()
}

fn changed(stage: &mut Stage, number: u32) {
    stage.input(Input::CredentialChanged { upstream: NOTES, number });
}

fn failed(stage: &mut Stage, why: CredentialError) {
    stage.input(Input::CredentialFailed { upstream: NOTES, why });
}

fn unavailable() -> CredentialError {
    CredentialError::Unavailable { why: "the token endpoint answered HTTP 503".to_owned() }
}

fn failure(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.mendline/failure"]
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn refuse(stage: &mut Stage, seen: &SentRequest) {
    stage.challenge(seen, 401);
}

/// Sends a call, and refuses it for its credential.
fn refused_call(stage: &mut Stage, id: u32) {
    stage.client_sends(&call(id, "create_note"));
    let seen = stage.next_sent();
    refuse(stage, &seen);
}

fn is_call(seen: &SentRequest) -> bool {
    seen.ask.verb == Verb::Post && seen.json()["method"] == "tools/call"
}

fn state(stage: &Stage) -> CredentialState {
    let mut status = Status::default();
    stage.events.iter().for_each(|event| status.apply(event));
    status.upstreams[&NOTES].credential.clone().unwrap().state
}

const ONE: [(u32, Challenge); 1] = [(1, Challenge::Credential)];
