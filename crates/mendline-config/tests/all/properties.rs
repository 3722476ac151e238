//! For any file: no panic, no secret, no span outside of the text.

use mendline_config::{Environment, RenderStyle, Source, load};
use proptest::prelude::*;

use crate::{SECRET, loaded};

/// A value, valid or not.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        (-1.0e6..1.0e6).prop_map(|number: f64| number.to_string()),
        prop::sample::select(vec![
            "2s",
            "1h30m",
            "stdio",
            "read",
            "wait",
            "https://x.test/?k=v",
            "${API_KEY}",
            "${NOPE:-x}",
            "ü\u{1f600}"
        ])
        .prop_map(|text| format!("{text:?}")),
        "[ -~]{0,12}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(", "))),
            prop::collection::vec((key(), inner), 0..5).prop_map(|entries| {
                let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key:?}: {value}")).collect();
                format!("{{ {} }}", entries.join(", "))
            }),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let known = vec![
        "mcpServers",
        "servers",
        "mendline",
        "defaults",
        "command",
        "args",
        "env",
        "url",
        "headers",
        "type",
        "timeouts",
        "call",
        "total",
        "autoReconnect",
        "maxRetries",
        "initialRetryDelay",
        "retry",
        "codes",
        "-32603",
        "tools",
        "effect",
        "rateLimit",
        "perSecond",
        "burst",
        "limits",
        "inFlight",
        "auth",
        "disabled",
        "envFile",
        "bearer_token_env_var",
    ];
    prop_oneof![4 => prop::sample::select(known).prop_map(str::to_owned), 1 => "[a-z_]{0,8}"]
}

fn is_sound(path: &str, text: &str) -> Result<(), TestCaseError> {
    let loaded = loaded(path, text);
    for finding in &loaded.findings {
        if let Some(at) = &finding.at {
            prop_assert!(loaded.source.text().get(at.clone()).is_some(), "{at:?} is outside of {text:?}");
        }
        let _ = finding.line(&loaded.source);
    }
    let rendered = loaded.render(&loaded.findings, RenderStyle::Plain);
    prop_assert!(!rendered.contains(SECRET), "{rendered}");
    prop_assert_eq!(loaded.source.shown().len(), loaded.source.text().len());
    for server in &loaded.servers {
        prop_assert!(loaded.names.contains(&server.name));
        let timeouts = &server.policies.timeouts;
        prop_assert!(timeouts.call <= timeouts.total, "{timeouts:?}");
        prop_assert!(server.policies.reconnect.initial <= server.policies.reconnect.cap_idle);
        prop_assert!(server.policies.retry.initial <= server.policies.retry.cap);
    }
    Ok(())
}

/// A valid server and its expected policies.
fn right() -> impl Strategy<Value = (String, u64, u64, i64)> {
    (1u64..1000, 0u64..1000, -1i64..1000, any::<bool>()).prop_map(|(call, more, retries, as_text)| {
        let total = call + more;
        let duration = |seconds: u64| if as_text { format!("\"{seconds}s\"") } else { (seconds * 1000).to_string() };
        let text = format!(
            "{{ \"mendline\": {{}}, \"mcpServers\": {{ \"a\": {{ \"command\": \"x\", \"timeouts\": {{ \"call\": {}, \"total\": {} }}, \"autoReconnect\": {{ \"maxRetries\": {retries} }} }} }} }}",
            duration(call),
            duration(total)
        );
        (text, call, total, retries)
    })
}

proptest! {
    #[test]
    fn any_json_is_accepted_or_refused(text in value()) {
        is_sound("x.json", &text)?;
    }

    #[test]
    fn any_text_is_accepted_or_refused(text in "\\PC{0,80}", toml in any::<bool>()) {
        is_sound(if toml { "x.toml" } else { "x.json" }, &text)?;
    }

    #[test]
    fn any_server_is_accepted_or_refused(keys in prop::collection::vec((key(), value()), 0..8)) {
        let keys: Vec<_> = keys.into_iter().map(|(key, value)| format!("{key:?}: {value}")).collect();
        is_sound("x.json", &format!("{{ \"mendline\": {{}}, \"mcpServers\": {{ \"a\": {{ {} }} }} }}", keys.join(", ")))?;
    }

    #[test]
    fn valid_values_are_lowered_unchanged((text, call, total, retries) in right()) {
        let loaded = load(Source::new("x.json", text), false, Environment::new(|_| None));
        prop_assert!(!loaded.has_errors(), "{:?}", loaded.findings);
        let policies = &loaded.server("a").unwrap().policies;
        prop_assert_eq!((policies.timeouts.call.as_secs(), policies.timeouts.total.as_secs()), (call, total));
        prop_assert_eq!(policies.reconnect.attempts, u32::try_from(retries).unwrap_or(u32::MAX));
    }
}
