//! The target for the configuration file, which people and programs write in two formats.
//!
//! It is separate from the wire's targets because it needs `mendline-config`;
//! `crates/mendline-config/tests/all/fuzz_smoke.rs` runs it in the ordinary tests. The first byte of the input selects
//! the owner and the format of the file; the rest is the file.

use std::io;
use std::time::Duration;

use mendline_config::{Endpoint, Environment, Finding, Loaded, RenderStyle, Server, Source, keys, load};

/// The value of every variable that is set. It must never be shown.
const SECRET: &str = "canary-s3cret";

/// The beginning of the only finding for a text that is not JSON.
const NOT_JSON: &str = "this is not JSON";

/// Any text is accepted or refused. Findings point into the text and show no secret, accepted values are in range, and
/// comments have no effect.
pub fn config(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (is_toml, is_ours) = (choice & 1 == 1, choice & 2 == 2);
    let path = if is_toml { "/nowhere/config.toml" } else { "/nowhere/config.json" };
    let read = |text: &str| {
        let environment = |name: &str| name.ends_with("KEY").then(|| SECRET.to_owned());
        // The input never selects a file to be read.
        let files = |path: &std::path::Path| match path.ends_with(".env") {
            true => Ok("A=1".to_owned()),
            false => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        load(Source::new(path, text), is_ours, Environment::new(environment).with_files(files))
    };
    let loaded = read(text);
    check_findings(&loaded);
    loaded.servers.iter().for_each(check_server);
    if !is_toml {
        let commented = read(&with_comments(loaded.source.text()));
        assert_eq!(meaning(&commented), meaning(&loaded), "with comments inserted");
    }
}

/// Every finding points into the text and can be rendered without showing a secret.
fn check_findings(loaded: &Loaded) {
    let (text, shown) = (loaded.source.text(), loaded.source.shown());
    for at in loaded.findings.iter().filter_map(|finding| finding.at.clone()) {
        assert!(text.get(at.clone()).is_some(), "{at:?} is not within {text:?}");
    }
    assert_eq!(shown.len(), text.len());
    let is_hidden_or_same = |(shown, written): (u8, u8)| shown == written || shown == b'*';
    assert!(shown.bytes().zip(text.bytes()).all(is_hidden_or_same), "{shown:?} is not {text:?} with stars");
    for style in [RenderStyle::Plain, RenderStyle::Coloured] {
        let rendered = loaded.render(&loaded.findings, style);
        assert!(!rendered.contains(SECRET) || text.contains(SECRET), "{text}\n{rendered}");
    }
    let lines: Vec<String> = loaded.findings.iter().map(|finding| finding.line(&loaded.source)).collect();
    assert!(lines.iter().all(|line| line.starts_with("/nowhere/config.")), "{lines:?}");
}

/// Accepted values are in range and consistent with each other.
fn check_server(server: &Server) {
    let policies = &server.policies;
    let timeouts = &policies.timeouts;
    let reconnect = &policies.reconnect;
    let times = [
        timeouts.call,
        timeouts.total,
        timeouts.recovery,
        timeouts.handshake,
        policies.retry.initial,
        policies.retry.cap,
        reconnect.initial,
        reconnect.cap_idle,
        reconnect.cap_called,
    ];
    let times = times.into_iter().chain(policies.tools.values().filter_map(|tool| tool.timeout));
    assert!({ times }.all(|time| (Duration::from_millis(1)..=keys::LONGEST).contains(&time)), "{policies:?}");
    assert!(timeouts.call <= timeouts.total && policies.retry.initial <= policies.retry.cap, "{policies:?}");
    assert!(reconnect.initial <= reconnect.cap_idle && reconnect.multiplier >= 1.0, "{policies:?}");
    assert!((1..=10).contains(&policies.retry.attempts) && policies.resume_attempts <= 1_000, "{policies:?}");
    assert!((1..=32_767).contains(&policies.limits.in_flight), "{policies:?}");
    assert!((1..=32_768).contains(&policies.limits.waiting), "{policies:?}");
    assert!(server.message_bytes.is_none_or(|most| (1_024..=256 << 20).contains(&most)));
    if let Some(breaker) = policies.breaker {
        assert!(breaker.failures >= 1 && breaker.window_calls >= 1 && breaker.successes >= 1, "{breaker:?}");
        assert!((0.0..=1.0).contains(&breaker.success_rate) && !breaker.window.is_zero(), "{breaker:?}");
    }
    if let Some(limit) = policies.rate_limit {
        assert!(limit.burst >= 1 && (0.001..=1e6).contains(&limit.per_second), "{limit:?}");
    }
    if let Some(alive) = policies.keep_alive {
        assert!(!alive.interval.is_zero() && !alive.timeout.is_zero(), "{alive:?}");
    }
    match &server.endpoint {
        Endpoint::Command { program, environment, .. } => {
            assert!(!program.is_empty(), "the program is empty");
            assert!(environment.iter().all(|(name, _)| !name.is_empty() && !name.contains(['=', '\0'])));
        }
        Endpoint::Url { url, .. } => assert!(!url.expose().is_empty(), "the URL is empty"),
        Endpoint::Wrapped { .. } => {}
    }
}

/// The meaning of a file and its findings, without positions.
fn meaning(loaded: &Loaded) -> (String, Vec<String>, Vec<String>) {
    let described = |finding: &Finding| {
        let Finding { severity, cause, what, help, server, at, scope: _ } = finding;
        // For invalid JSON the reason contains the next character, which a comment changes.
        let what = if what.starts_with(NOT_JSON) { NOT_JSON } else { what };
        format!("{severity:?} {cause:?} {what} {help:?} {server:?} {}", at.is_some())
    };
    let mut findings: Vec<_> = loaded.findings.iter().map(described).collect();
    // Findings at the same position are in the order of discovery, which a comment may change.
    findings.sort();
    (format!("{:?} {:?} {:?}", loaded.owner, loaded.servers, loaded.logs), loaded.names.clone(), findings)
}

/// Inserts a comment before every structural character outside of strings and comments.
fn with_comments(text: &str) -> String {
    enum State {
        Nothing,
        Text,
        Line,
        Block,
    }
    let mut state = State::Nothing;
    // A byte order mark is removed at the start of a file. With a blank first, a second one is not at the start.
    let mut commented = String::from(" ");
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let (next, taken) = match state {
            State::Nothing if rest.starts_with("//") => (State::Line, 2),
            State::Nothing if rest.starts_with("/*") => (State::Block, 2),
            State::Block if rest.starts_with("*/") => (State::Nothing, 2),
            State::Line if matches!(character, '\n' | '\r') => (State::Nothing, 1),
            State::Nothing if character == '"' => (State::Text, 1),
            State::Text if character == '"' => (State::Nothing, 1),
            State::Text if character == '\\' => (State::Text, 1 + rest[1..].chars().next().map_or(0, char::len_utf8)),
            State::Nothing if matches!(character, '{' | '}' | '[' | ']' | ':' | ',') => {
                commented.push_str(" /* a \"remark\" { */ // and another }\n");
                (State::Nothing, 1)
            }
            same => (same, character.len_utf8()),
        };
        commented.push_str(&rest[..taken]);
        (state, rest) = (next, &rest[taken..]);
    }
    commented
}
