//! Mistakes are reported all at once, with their location and a correction.

use mendline_config::{Cause, Owner, RenderStyle, Severity};

use crate::{SECRET, loaded, wrong};

#[test]
fn ten_mistakes_are_ten_findings() {
    let loaded = loaded("ten-mistakes.json", include_str!("../files/ten-mistakes.json"));
    assert_eq!(loaded.owner, Owner::Mendline);
    let errors: Vec<_> = loaded.findings.iter().filter(|finding| finding.is_error()).collect();
    let rendered = loaded.render(errors.iter().copied(), RenderStyle::Plain);
    assert_eq!(errors.len(), 10, "{rendered}");
    assert!(!rendered.contains("literal-secret"), "{rendered}");
    insta::assert_snapshot!(rendered);
}

#[test]
fn mistake_stops_all_servers_of_own_file_only() {
    let servers = r#""good": { "command": "x" }, "bad": { "command": 5 }"#;
    let ours = loaded("x.json", &format!("{{ \"mendline\": {{}}, \"mcpServers\": {{ {servers} }} }}"));
    assert_eq!((ours.obstacles("good").len(), ours.obstacles("bad").len()), (1, 1));
    let theirs = loaded("x.json", &format!("{{ \"mcpServers\": {{ {servers} }} }}"));
    assert_eq!((theirs.obstacles("good").len(), theirs.obstacles("bad").len()), (0, 1));
    assert!(theirs.server("good").is_some() && theirs.server("bad").is_none());
    assert_eq!(theirs.names, ["good", "bad"]);
}

#[test]
fn unset_variable_stops_only_its_server() {
    let text = r#"{ "mendline": {}, "mcpServers": { "a": { "command": "${NOPE}" }, "b": { "command": "x" } } }"#;
    let loaded = loaded("x.json", text);
    assert_eq!(loaded.findings[0].cause, Cause::Environment);
    assert_eq!((loaded.obstacles("a").len(), loaded.obstacles("b").len()), (1, 0));
}

#[test]
fn values_out_of_range_are_refused_with_their_range() {
    for (keys, words) in [
        (r#""autoReconnect": { "maxRetries": -2 }"#, "from -1 to 1000000, not -2"),
        (r#""autoReconnect": { "maxRetries": 1.5 }"#, "an integer from -1 to 1000000, not 1.5"),
        (r#""autoReconnect": { "maxRetries": "5" }"#, "from -1 to 1000000, not a string"),
        (r#""autoReconnect": { "maxRetries": 99999999999999999999 }"#, "from -1 to 1000000"),
        (r#""autoReconnect": { "initialRetryDelay": 0 }"#, "a duration from 1ms to 30days"),
        (r#""autoReconnect": { "initialRetryDelay": -5 }"#, "a duration from 1ms to 30days"),
        (r#""autoReconnect": { "backoffMultiplier": 1e300 }"#, "from 1 to 1000, not 1e300"),
        (r#""timeouts": { "call": "31days" }"#, "from 1ms to 30days"),
        (r#""timeouts": { "call": "soon" }"#, "string with units"),
        (r#""timeouts": { "call": true }"#, "string with units), not a boolean"),
        (r#""keepAlive": { "interval": "10ms" }"#, "a duration from 1s"),
        (r#""circuitBreaker": { "failureThreshold": 0 }"#, "from 1 to 10000, not 0"),
        (r#""circuitBreaker": { "successRate": 1.1 }"#, "from 0 to 1, not 1.1"),
        (r#""rateLimit": { "burst": 5 }"#, "has no `perSecond`; add `perSecond`"),
        (r#""rateLimit": { "perSecond": 0 }"#, "from 0.001"),
        (r#""retry": { "maxAttempts": 11 }"#, "from 1 to 10, not 11"),
        (r#""retry": { "codes": { "x": "never" } }"#, "is not an error code"),
        (r#""retry": { "codes": { "-32001": "sometimes" } }"#, "one of never, reads, always"),
        (r#""retry": { "statuses": { "x": "never" } }"#, "an integer from 300 to 599"),
        (r#""retry": { "statuses": { "200": "never" } }"#, "an integer from 300 to 599"),
        (r#""retry": { "statuses": { "0502": "never" } }"#, "an integer from 300 to 599"),
        (r#""retry": { "statuses": { "401": "never" } }"#, "a missing login has its own handling"),
        (r#""retry": { "statuses": { "502": "sometimes" } }"#, "one of never, reads, always"),
        (r#""retry": { "statuses": "never" }"#, "an object of HTTP statuses"),
        (r#""failures": "exception""#, "one of result, error"),
        (r#""tools": { "a": { "limits": { "inFlight": 0 } } }"#, "from 1 to 32767"),
        (r#""tools": { "a": { "limits": { "messageBytes": 2048 } } }"#, "unknown key `messageBytes`"),
        (r#""tools": { "a": { "rateLimit": { "burst": 5 } } }"#, "has no `perSecond`; add `perSecond`"),
        (r#""limits": { "messageBytes": 12 }"#, "from 1024"),
        (r#""tools": { "a": { "effect": "reed" } }"#, "did you mean \"read\"?"),
        (r#""startup": "later""#, "one of atOnce, wait"),
    ] {
        let wrong = wrong(&format!("\"command\": \"x\", {keys}"));
        assert_eq!(wrong.len(), 1, "{keys}: {wrong:?}");
        assert!(wrong[0].contains(words), "{keys}: {wrong:?}");
        assert!(
            ["for example", "did you mean", "add", "known keys"].iter().any(|help| wrong[0].contains(help)),
            "{wrong:?}"
        );
    }
}

#[test]
fn contradictory_keys_are_reported() {
    for (keys, words) in [
        (r#""command": "x", "url": "https://x.test""#, "both a `command` and a `url`; remove one"),
        (r#""env": {}"#, "neither a `command` nor a `url`"),
        (r#""command": "x", "type": "sse""#, "write \"stdio\", or remove `type`"),
        (r#""url": "https://x.test", "type": "stdio""#, "write \"http\" or \"sse\""),
        (r#""command": "x", "headers": { "A": "b" }"#, "`headers` applies to HTTP servers only"),
        (r#""url": "https://x.test", "args": ["x"]"#, "`args` applies to commands only"),
        (r#""url": "ftp://x.test""#, "for example \"https://mcp.example.com/mcp\""),
        (r#""url": "https://x.test", "headers": { "A b": "c" }"#, "a name that HTTP does not allow"),
        (r#""url": "https://x.test", "headers": { "A": "b", "a": "c" }"#, "duplicate header"),
        (r#""command": "  ""#, "`command` is empty"),
        (r#""command": "x", "env": { "A=B": "c" }"#, "not a valid name of an environment variable"),
        (r#""command": "x", "timeouts": { "call": "2m", "total": "1m" }"#, "longer than `total`, 1m"),
        (r#""command": "x", "autoReconnect": { "initialRetryDelay": "1m" }"#, "longer than `maxRetryDelay`, 30s"),
        (r#""command": "x", "retry": { "initialDelay": "2s", "maxDelay": "1s" }"#, "longer than `maxDelay`, 1s"),
        (r#""command": "x", "keepAlive": { "interval": "5s", "timeout": "6s" }"#, "longer than `interval`, 5s"),
        (r#""command": "x", "command": "y""#, "duplicate key `command`"),
        (r#""command": "x", "env": { "A": "b", "A": "c" }"#, "duplicate name `A`"),
        (r#""command": "x", "disabled": true, "enabled": true"#, "`disabled` and `enabled` contradict each other"),
        (r#""command": "x", "comand": "y""#, "did you mean `command`?"),
        (r#""command": "x", "autoReconnect": { "tries": 1 }"#, "known keys: enabled, maxRetries"),
        (r#""command": "${input:key}""#, "cannot do"),
        (r#""command": "${oops""#, "has no `}`"),
    ] {
        let wrong = wrong(keys);
        assert_eq!(wrong.len(), 1, "{keys}: {wrong:?}");
        assert!(wrong[0].contains(words), "{keys}: {wrong:?}");
    }
}

#[test]
fn servers_with_the_same_sanitized_name_are_refused() {
    let text =
        r#"{ "mendline": {}, "mcpServers": { "my notes": { "command": "x" }, "my-notes": { "command": "y" } } }"#;
    let loaded = loaded("x.json", text);
    let errors: Vec<_> = loaded.findings.iter().filter(|finding| finding.is_error()).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].what.contains("have the same name `my-notes`"), "{errors:?}");
}

#[test]
fn wrong_default_is_reported_once() {
    let text = r#"{ "mendline": { "defaults": { "timeouts": { "call": "2m", "total": "1m" }, "retry": { "maxAttempts": 0 } } },
        "mcpServers": { "a": { "command": "x" }, "b": { "command": "x" } } }"#;
    let loaded = loaded("x.json", text);
    assert_eq!(loaded.findings.iter().filter(|finding| finding.is_error()).count(), 2, "{:#?}", loaded.findings);
}

#[test]
fn invalid_file_yields_one_finding() {
    for (text, words) in [
        ("", "empty"),
        ("[]", "must be an object"),
        ("{ \"mcpServers\": [] }", "must be an object of servers"),
        ("{ \"mcpServers\": { \"a\": 5 } }", "must be an object, not a number"),
        ("{ \"mcpServers\": { \"a\": { \"command\": \"x\" }", "this is not JSON"),
    ] {
        let loaded = loaded("x.json", text);
        assert_eq!(loaded.findings.len(), 1, "{text}: {:?}", loaded.findings);
        assert!(loaded.findings[0].is_error() && loaded.findings[0].what.contains(words), "{:?}", loaded.findings);
    }
    let nothing = loaded("x.json", "{}");
    assert_eq!(nothing.findings[0].severity, Severity::Warning);
}

#[test]
fn findings_show_no_secret() {
    let text = r#"{ "mendline": {}, "mcpServers": { "a": { "url": "https://u:literal@x.test/?key=literal", "headers": { "A": "literal", "Host:": "${API_TOKEN}" }, "args": ["literal"], "what": "literal", "auth": { "type": "oauth", "CLIENT_SECRET": "literal", "other": "literal" }, "limits": { "inFlight": "literal" } } } }"#;
    let loaded = loaded("x.json", text);
    let rendered = loaded.render(&loaded.findings, RenderStyle::Plain);
    assert!(loaded.findings.len() >= 5, "{rendered}");
    assert!(!rendered.contains(SECRET), "{rendered}");
    // The only visible literal is in place of a number.
    assert_eq!(
        rendered.matches("literal").count(),
        rendered.matches("\"inFlight\": \"literal\"").count(),
        "{rendered}"
    );
    assert!(!format!("{loaded:?}").contains(SECRET));
}

#[test]
fn log_settings_are_read_or_refused() {
    let with = |logs: &str| {
        loaded(
            "x.json",
            &format!(r#"{{ "mendline": {{ "logs": {logs} }}, "mcpServers": {{ "a": {{ "command": "x" }} }} }}"#),
        )
    };
    let right = with(r#"{ "level": "debug", "fileBytes": 65536, "totalBytes": 131072, "wire": true }"#);
    assert!(right.findings.is_empty(), "{:?}", right.findings);
    let chosen =
        (right.logs.level.map(|level| level.word()), right.logs.file_bytes, right.logs.total_bytes, right.logs.wire);
    assert_eq!(chosen, (Some("debug"), Some(65_536), Some(131_072), Some(true)));
    for (logs, words) in [
        (r#"{ "fileBytes": 1000000, "totalBytes": 100000 }"#, "more than `totalBytes`, 100000"),
        (r#"{ "level": "loud" }"#, "off, error, warn, info, debug"),
        (r#"{ "fileBytes": 10 }"#, "65536"),
        (r#"{ "wires": true }"#, "did you mean `wire`?"),
    ] {
        let wrong = with(logs);
        assert_eq!(wrong.findings.len(), 1, "{logs}: {:?}", wrong.findings);
        let describe = wrong.render(&wrong.findings, RenderStyle::Plain);
        assert!(describe.contains(words), "{logs}: {describe}");
    }
}

#[test]
fn huge_env_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(".env"), "# nothing\n".repeat(500_000)).unwrap();
    let path = directory.path().join("x.json");
    let text = r#"{ "mcpServers": { "a": { "command": "x", "envFile": ".env" } } }"#;
    let loaded = loaded(path.to_str().unwrap(), text);
    let [finding] = loaded.findings.as_slice() else { panic!("{:?}", loaded.findings) };
    assert!(finding.what.contains("larger than 4 MiB"), "{}", finding.what);
    assert_eq!((finding.cause, loaded.servers.len()), (Cause::Environment, 0));
}

#[test]
fn variable_in_invalid_url_is_not_shown() {
    for url in
        ["${API_KEY}:x", "${API_KEY}://x.test", "ht${API_KEY}ps://x.test", "https://${API_KEY}@x.test", "${API_KEY}"]
    {
        let loaded = loaded("x.json", &format!(r#"{{ "mcpServers": {{ "a": {{ "url": "{url}" }} }} }}"#));
        let rendered = loaded.render(&loaded.findings, RenderStyle::Plain);
        assert!(loaded.has_errors() && !rendered.contains(SECRET), "{rendered}");
    }
    let loaded = loaded("x.json", r#"{ "mcpServers": { "a": { "url": "ftp://x.test" } } }"#);
    assert!(loaded.findings[0].what.contains("the scheme must be http or https"), "{:?}", loaded.findings);
}

/// Returns the errors of `access` with these keys.
fn wrong_access(keys: &str) -> Vec<String> {
    let servers = r#""mcpServers": { "notes": { "command": "x" } }"#;
    let text = format!("{{ \"mendline\": {{ \"access\": {{ {keys} }} }}, {servers} }}");
    let loaded = loaded("config.json", &text);
    let errors: Vec<_> = loaded.findings.iter().filter(|finding| finding.is_error()).collect();
    let rendered = loaded.render(errors.iter().copied(), RenderStyle::Plain);
    assert!(!rendered.contains("canary"), "{rendered}");
    errors.into_iter().map(crate::describe).collect()
}

#[test]
fn mistakes_of_access_are_named_with_the_correction() {
    for (keys, words) in [
        (r#""tokens": "canary-0123456789""#, "an array of strings and objects"),
        (r#""tokens": [5]"#, "a string or an object, not a number"),
        (r#""tokens": ["canary"]"#, "fewer than 16 characters can be guessed"),
        (r#""tokens": ["canary with spaces in it"]"#, "visible ASCII characters"),
        (r#""tokens": [{ "name": "ci" }]"#, "neither `token` nor `hash`; add"),
        (r#""tokens": [{ "hash": "md5:1" }]"#, "64 hexadecimal digits"),
        (r#""tokens": [{ "token": "canary-0123456789", "nmae": "x" }]"#, "did you mean `name`?"),
        (r#""tokens": [{ "token": "canary-0123456789", "name": "local" }]"#, "requests without a token"),
        (r#""tokens": [{ "token": "canary-0123456789", "servers": ["note"] }]"#, "did you mean \"notes\"?"),
        (r#""tokens": [{ "token": "canary-0123456789", "expires": "soon" }]"#, "is not a date"),
        (r#""tokens": [{ "token": "canary-0123456789", "rateLimit": { "burst": 2 } }]"#, "add `perSecond`"),
        (r#""tokens": ["canary-0123456789", "canary-0123456789"]"#, "in the list twice"),
        (
            r#""tokens": [{ "name": "a", "token": "canary-0123456789" }, { "name": "a", "token": "canary-9876543210" }]"#,
            "two tokens have the name",
        ),
        (r#""tokens": ["canary-0123456789"], "dangerAllowAnyone": true"#, "makes `tokens` useless"),
        (r#""origins": ["localhost:6274"]"#, "is not an origin"),
        (r#""hosts": ["https://mcp.example.com"]"#, "is not a host name"),
        (r#""proxies": ["10.0.0.0/33"]"#, "is not an address or a range of addresses"),
        (r#""tls": { "key": "x.pem" }"#, "add \"certificate\""),
        (r#""jwt": { "issuer": "https://x.test" }"#, "needs an `audience`"),
        (r#""jwt": { "issuer": "x", "audience": "y" }"#, "needs an `issuer` that is a URL"),
        (r#""jwt": { "issuer": "https://x.test", "audience": "y", "servers": ["note"] }"#, "did you mean \"notes\"?"),
        (r#""tokens": [{ "token": "canary-0123456789", "name": "jwt:ann" }]"#, "are those of access tokens"),
        (r#""hosts": 5"#, "an array of strings, or one string"),
        (r#""host": "x""#, "did you mean `hosts`?"),
    ] {
        let wrong = wrong_access(keys);
        assert_eq!(wrong.len(), 1, "{keys}: {wrong:?}");
        assert!(wrong[0].contains(words), "{keys}: {wrong:?}");
    }
}

#[test]
fn unset_token_stops_the_gateway_and_no_server() {
    let text = r#"{ "mendline": { "access": { "tokens": ["${NOPE}"] } }, "mcpServers": { "a": { "command": "x" } } }"#;
    let loaded = loaded("x.json", text);
    assert_eq!((loaded.obstacles("a").len(), loaded.gateway_obstacles().len()), (0, 1));
}

#[test]
fn mistakes_of_forwarded_headers_are_named_with_the_correction() {
    for (server, words) in [
        (r#""command": "x", "forwardHeaders": ["X-Token"]"#, "needs a `url`"),
        (r#""url": "https://x.test/", "forwardHeaders": [{ "to": "X-Token" }]"#, "has no `from`"),
        (r#""url": "https://x.test/", "forwardHeaders": ["X Token"]"#, "only letters, digits and `-`"),
        (
            r#""url": "https://x.test/", "forwardHeaders": [{ "from": "X-Token", "to": "Host" }]"#,
            "sets the header Host itself",
        ),
        (r#""url": "https://x.test/", "forwardHeaders": [{ "from": "X-Token", "to": "Mcp-Session-Id" }]"#, "itself"),
        (r#""url": "https://x.test/", "forwardHeaders": [{ "from": "X-Token", "format": "Bearer" }]"#, "`{}` once"),
        (
            r#""url": "https://x.test/", "forwardHeaders": ["X-Token", { "from": "Y", "to": "x-token" }]"#,
            "two headers go to",
        ),
    ] {
        let loaded = loaded("config.json", &format!(r#"{{ "mcpServers": {{ "a": {{ {server} }} }} }}"#));
        let errors: Vec<_> = loaded.findings.iter().filter(|finding| finding.is_error()).map(crate::describe).collect();
        assert!(errors.len() == 1 && errors[0].contains(words), "{server}: {errors:?}");
    }
    let right = r#""url": "https://x.test/", "forwardHeaders": [{ "from": "X-Token", "to": "Authorization", "format": "Bearer {}" }]"#;
    let loaded = loaded("config.json", &format!(r#"{{ "mcpServers": {{ "a": {{ {right} }} }} }}"#));
    assert!(!loaded.has_errors() && loaded.server("a").unwrap().policies.forward_headers.len() == 1);
}
