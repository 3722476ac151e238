//! The configuration file: not from strangers, but written by hand, by many programs and in two languages.
//!
//! Apart from the wire's targets because it needs the crate that reads it; `crates/mendline-config/tests/all/fuzz_smoke.rs`
//! drives it in the ordinary tests. The first byte says whose file it is and in which language; the rest is the file.

use std::io;
use std::time::Duration;

use mendline_config::{Finding, Loaded, Paint, Reach, Server, Source, Surroundings, keys, load};

/// What every variable holds that is set, and what must never be shown.
const SECRET: &str = "canary-s3cret";

/// How the only finding begins about a text that could not be read to its end.
const NOT_JSON: &str = "this is not JSON";

/// Any text is read or refused: what is said of it has its place in it and shows no secret, what is accepted is in range,
/// and comments mean nothing.
pub fn config(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (is_toml, is_ours) = (choice & 1 == 1, choice & 2 == 2);
    let path = if is_toml { "/nowhere/config.toml" } else { "/nowhere/config.json" };
    let read = |text: &str| {
        let environment = |name: &str| name.ends_with("KEY").then(|| SECRET.to_owned());
        // Nothing that a fuzzer writes chooses a file to be read.
        let files = |path: &std::path::Path| match path.ends_with(".env") {
            true => Ok("A=1".to_owned()),
            false => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        load(Source::new(path, text), is_ours, Surroundings::new(environment).with_files(files))
    };
    let loaded = read(text);
    check_findings(&loaded);
    loaded.servers.iter().for_each(check_server);
    if !is_toml {
        let commented = read(&with_comments(loaded.source.text()));
        assert_eq!(meaning(&commented), meaning(&loaded), "with a comment wherever one may stand");
    }
}

/// Every finding is about a place in the text, and can be painted without showing what must not be shown.
fn check_findings(loaded: &Loaded) {
    let (text, shown) = (loaded.source.text(), loaded.source.shown());
    for at in loaded.findings.iter().filter_map(|finding| finding.at.clone()) {
        assert!(text.get(at.clone()).is_some(), "{at:?} is nowhere in {text:?}");
    }
    assert_eq!(shown.len(), text.len());
    let is_hidden_or_same = |(shown, written): (u8, u8)| shown == written || shown == b'*';
    assert!(shown.bytes().zip(text.bytes()).all(is_hidden_or_same), "{shown:?} is not {text:?} with stars");
    for paint in [Paint::Plain, Paint::Coloured] {
        let painted = loaded.render(&loaded.findings, paint);
        assert!(!painted.contains(SECRET) || text.contains(SECRET), "{text}\n{painted}");
    }
    let lines: Vec<String> = loaded.findings.iter().map(|finding| finding.line(&loaded.source)).collect();
    assert!(lines.iter().all(|line| line.starts_with("/nowhere/config.")), "{lines:?}");
}

/// What came through is right: the table's ranges, and what two values must be together.
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
    match &server.reach {
        Reach::Command { program, environment, .. } => {
            assert!(!program.is_empty(), "nothing to run");
            assert!(environment.iter().all(|(name, _)| !name.is_empty() && !name.contains(['=', '\0'])));
        }
        Reach::Url { url, .. } => assert!(!url.expose().is_empty(), "nowhere to go"),
        Reach::Wrapped { .. } => {}
    }
}

/// What a file means and what is said of it, without the places.
fn meaning(loaded: &Loaded) -> (String, Vec<String>, Vec<String>) {
    let described = |finding: &Finding| {
        let Finding { weight, fault, what, help, server, at } = finding;
        // Where something is no JSON any more, the next sign is part of the reason, and a comment is another sign.
        let what = if what.starts_with(NOT_JSON) { NOT_JSON } else { what };
        format!("{weight:?} {fault:?} {what} {help:?} {server:?} {}", at.is_some())
    };
    let mut findings: Vec<_> = loaded.findings.iter().map(described).collect();
    // Two findings at one place are in the order in which they were found, and a comment may part them.
    findings.sort();
    (format!("{:?} {:?} {:?}", loaded.owner, loaded.servers, loaded.logs), loaded.names.clone(), findings)
}

/// The same JSON with a comment before every sign that is neither in a text nor in a comment.
fn with_comments(text: &str) -> String {
    enum State {
        Nothing,
        Text,
        Line,
        Block,
    }
    let mut state = State::Nothing;
    // A mark of the byte order is taken off the beginning of a file; if there was a second one, it is not at the beginning.
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
