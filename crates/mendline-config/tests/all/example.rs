//! The example of the guide, key by key.

use std::time::Duration;

use mendline::decisions::config::{Breaker, FailureForm, OnError, OpenFor, RateLimit, Startup, ToolPolicy};
use mendline::decisions::policy::effect::Effect;

use crate::{loaded, server};

const EXAMPLE: &str = include_str!("../files/example.jsonc");

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn every_key_of_the_example_is_lowered() {
    let server = server("config.jsonc", EXAMPLE, "atlassian");
    let policies = &server.policies;
    let policy = &policies.reconnect;
    assert_eq!((policy.attempts, policy.first), (10, None));
    assert_eq!(policy.patience, Duration::from_micros(77_171_875), "half of the ten delays");
    assert_eq!((policy.initial, policy.cap_idle, policy.multiplier), (seconds(2), seconds(30), 1.5));
    let timeouts = &policies.timeouts;
    assert_eq!((timeouts.call, timeouts.total), (seconds(300), seconds(1800)));
    assert_eq!((timeouts.recovery, timeouts.handshake), (seconds(45), seconds(10)));
    assert_eq!(policies.retry.codes.get(&-32001), Some(&OnError::Never));
    let breaker = Breaker { open_for: OpenFor::Exactly(seconds(60)), ..Breaker::default() };
    assert_eq!(policies.breaker, Some(breaker));
    assert_eq!(policies.rate_limit, Some(RateLimit { burst: 10, per_second: 10.0 }));
    let tool = ToolPolicy { effect: Some(Effect::Unsafe), timeout: Some(seconds(30)), ..ToolPolicy::default() };
    assert_eq!(policies.tools.get("create_issue"), Some(&tool));
    assert_eq!(policies.retry.statuses, [(502, OnError::Reads)].into());
    let search = ToolPolicy {
        in_flight: Some(2),
        rate_limit: Some(RateLimit { burst: 5, per_second: 5.0 }),
        breaker: Some(Some(Breaker { failures: 2, ..breaker })),
        ..ToolPolicy::default()
    };
    assert_eq!(policies.tools.get("search"), Some(&search), "keys that are not named follow the server");
    assert_eq!(policies.catalogue.startup, Startup::Wait);
    assert_eq!(server.message_bytes, Some(16 << 20));
}

#[test]
fn server_overrides_defaults() {
    let notes = server("config.jsonc", EXAMPLE, "notes");
    assert_eq!((notes.policies.timeouts.call, notes.policies.timeouts.recovery), (seconds(120), seconds(10)));
    let text = r#"{ "mendline": { "defaults": { "timeouts": { "call": "2m" }, "circuitBreaker": { "enabled": false } } },
        "mcpServers": { "a": { "command": "x", "timeouts": { "total": "1m" } } } }"#;
    let a = server("x.json", text, "a");
    assert_eq!((a.policies.timeouts.call, a.policies.timeouts.total), (seconds(60), seconds(60)));
    assert_eq!(a.policies.breaker, None);
}

#[test]
fn failures_and_breaker_of_a_tool_follow_defaults() {
    let text = r#"{ "mendline": { "defaults": { "failures": "error", "circuitBreaker": { "successThreshold": 7 } } },
        "mcpServers": {
            "a": { "command": "x", "tools": { "t": { "circuitBreaker": { "enabled": false } }, "u": { "circuitBreaker": { "windowCalls": 3 } } } },
            "b": { "command": "x", "failures": "result" } } }"#;
    let (a, b) = (server("x.json", text, "a").policies, server("x.json", text, "b").policies);
    assert_eq!((a.failures, b.failures), (FailureForm::Error, FailureForm::Result));
    assert_eq!(a.tools["t"].breaker, Some(None));
    assert_eq!(a.tools["u"].breaker, Some(Some(Breaker { successes: 7, window_calls: 3, ..Breaker::default() })));
}

#[test]
fn example_has_no_findings() {
    let loaded = loaded("config.jsonc", EXAMPLE);
    assert!(loaded.findings.is_empty(), "{:?}", loaded.findings);
}

#[test]
fn readable_file_with_secrets_yields_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    for (env, mode, warned) in [
        (r#""API_KEY": "literal""#, 0o644, true),
        (r#""API_KEY": "literal""#, 0o600, false),
        (r#""API_KEY": "${API_KEY}""#, 0o644, false),
        (r#""DEBUG": "1""#, 0o644, false),
    ] {
        let text = format!("{{ \"mcpServers\": {{ \"a\": {{ \"command\": \"x\", \"env\": {{ {env} }} }} }} }}");
        std::fs::write(&path, &text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let loaded = loaded(path.to_str().unwrap(), &text);
        let found = loaded.findings.iter().any(|finding| finding.what.contains("others on this machine"));
        assert_eq!(found, warned, "{env} {mode:o}: {:?}", loaded.findings);
    }
}
