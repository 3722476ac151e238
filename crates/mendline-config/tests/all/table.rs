//! The parser, the schema and the guide agree on the keys.
//!
//! This validator supports the part of JSON Schema that the schema uses, and fails on every other keyword.

use serde_json::Value;

use mendline_config::keys::{self, Key, Kind};
use mendline_config::{key_table, schema};

use crate::loaded;

fn parsed() -> Value {
    serde_json::from_str(&schema()).unwrap()
}

/// Parses JSON after removing comments and trailing commas.
fn plain(text: &str) -> Value {
    let without: Vec<&str> = text.lines().map(|line| line.split(" //").next().unwrap_or_default()).collect();
    let mut joined = without.join("\n");
    for close in ["}", "]"] {
        let parts: Vec<&str> = joined.split(close).map(|part| part.trim_end().trim_end_matches(',')).collect();
        joined = parts.join(close);
    }
    serde_json::from_str(&joined).unwrap_or_else(|error| panic!("{error}: {joined}"))
}

/// Collects the violations of a schema.
fn broken(schema: &Value, value: &Value, root: &Value, path: &str, out: &mut Vec<String>) {
    for (word, rule) in schema.as_object().expect("a schema is a block") {
        match word.as_str() {
            "$schema" | "$id" | "title" | "description" | "definitions" => {}
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/definitions/").unwrap();
                broken(&root["definitions"][name], value, root, path, out);
            }
            "allOf" => rule.as_array().unwrap().iter().for_each(|rule| broken(rule, value, root, path, out)),
            "oneOf" => {
                let fits = rule.as_array().unwrap().iter().filter(|rule| {
                    let mut inner = Vec::new();
                    broken(rule, value, root, path, &mut inner);
                    inner.is_empty()
                });
                if fits.count() != 1 {
                    out.push(format!("{path}: not exactly one of them"));
                }
            }
            "type" => {
                let is = match rule.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "number" => value.is_number(),
                    "integer" => value.is_i64() || value.is_u64(),
                    other => panic!("a type {other}"),
                };
                if !is {
                    out.push(format!("{path}: not of type {rule}"));
                }
            }
            "enum" if !rule.as_array().unwrap().contains(value) => out.push(format!("{path}: none of {rule}")),
            "minimum" if value.as_f64().is_some_and(|number| number < rule.as_f64().unwrap()) => {
                out.push(format!("{path}: below {rule}"));
            }
            "maximum" if value.as_f64().is_some_and(|number| number > rule.as_f64().unwrap()) => {
                out.push(format!("{path}: above {rule}"));
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    broken(rule, item, root, &format!("{path}[{index}]"), out);
                }
            }
            "properties" => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    match (rule.get(key), &schema["additionalProperties"]) {
                        (Some(rule), _) => broken(rule, inner, root, &format!("{path}.{key}"), out),
                        (None, Value::Bool(false)) => out.push(format!("{path}.{key}: not a key")),
                        (None, _) => {}
                    }
                }
            }
            "additionalProperties" if rule.is_object() => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    broken(rule, inner, root, &format!("{path}.{key}"), out);
                }
            }
            // Patterns are for editors; the parser checks the values.
            "pattern" | "patternProperties" | "enum" | "minimum" | "maximum" | "additionalProperties" => {}
            other => panic!("the schema uses {other:?}, which this test does not know"),
        }
    }
}

fn breaks(text: &str) -> Vec<String> {
    let (schema, mut out) = (parsed(), Vec::new());
    broken(&schema, &plain(text), &schema, "", &mut out);
    out
}

#[test]
fn schema_accepts_the_example_and_refuses_the_mistakes() {
    assert_eq!(breaks(include_str!("../files/example.jsonc")), Vec::<String>::new());
    // A schema cannot detect duplicate names.
    let mistakes =
        include_str!("../files/ten-mistakes.json").replace(r#""slips": { "command": "again" }"#, r#""x": {}"#);
    let broken = breaks(&mistakes);
    assert!(broken.iter().any(|line| line.contains("maxRetrys: not a key")), "{broken:?}");
    assert!(broken.iter().any(|line| line.contains("inFlight: below 1")), "{broken:?}");
    assert!(broken.iter().any(|line| line.contains("PORT: not of type")), "{broken:?}");
}

/// Collects every path of keys of a schema.
fn paths(schema: &Value, root: &Value, path: &str, out: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/definitions/")) {
        return paths(&root["definitions"][name], root, path, out);
    }
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{key}");
        out.push(path.clone());
        paths(inner, root, &format!("{path}."), out);
        if inner["additionalProperties"].is_object() {
            paths(&inner["additionalProperties"], root, &format!("{path}.NAME."), out);
        }
    }
}

#[test]
fn parser_knows_exactly_the_keys_of_the_schema() {
    let schema = parsed();
    let mut known = Vec::new();
    paths(&schema, &schema, "", &mut known);
    assert!(known.len() > 120, "{}", known.len());
    for path in &known {
        for (suffix, is_known) in [("", true), ("_", false)] {
            let mut keys: Vec<String> = path.split('.').map(str::to_owned).collect();
            keys.last_mut().unwrap().push_str(suffix);
            // The innermost value has a type that no key accepts: a known key reports the type, or ignores the value.
            let inside =
                keys[1..].iter().rev().fold("[[]]".to_owned(), |inner, key| format!("{{ \"{key}\": {inner} }}"));
            let ours = if keys[0] == "mendline" { "" } else { "\"mendline\": {}, " };
            let text = format!("{{ {ours}\"{}\": {inside} }}", keys[0]);
            let loaded = loaded("x.json", &text);
            let unknown = loaded.findings.iter().any(|finding| finding.what.starts_with("unknown key"));
            assert_eq!(unknown, !is_known, "{path}{suffix}: {text}: {:?}", loaded.findings);
        }
    }
}

/// A key without an effect is refused with its location and advice.
#[test]
fn u11_key_that_does_nothing_yet_is_an_error() {
    let text = r#"{ "mendline": { "store": { "url": "redis://u:canary@x" } }, "mcpServers": {} }"#;
    let ours = loaded("config.json", text);
    let [finding] = ours.findings.as_slice() else { panic!("{text}: {:?}", ours.findings) };
    assert!(finding.is_error() && finding.what == "`store` is not supported yet", "{finding:?}");
    assert!(finding.help.as_deref().unwrap().contains("it is for the gateway"), "{finding:?}");
    assert_eq!(&text[finding.at.clone().unwrap()], "\"store\"", "{text}");
    let rendered = ours.render(&ours.findings, mendline_config::RenderStyle::Plain);
    assert!(!rendered.contains("canary"), "{rendered}");
}

/// In a file of a client, keys that the client handles are not errors.
#[test]
fn u11_key_of_another_program_is_only_warned_about() {
    let entry = r#""sandbox": true"#;
    let text = format!(r#"{{ "mcpServers": {{ "a": {{ "url": "https://x.test/", {entry} }} }} }}"#);
    let loaded = loaded("/home/me/.cursor/mcp.json", &text);
    assert!(!loaded.findings.is_empty() && !loaded.has_errors(), "{:?}", loaded.findings);
    assert!(loaded.server("a").is_some() && loaded.obstacles("a").is_empty());
}

/// Returns values of this kind; at least one differs from the default.
fn values(kind: &Kind) -> Vec<String> {
    match kind {
        Kind::Flag => vec!["true".into(), "false".into()],
        Kind::Text => {
            vec![r#""A_TOKEN""#.into(), r#""ENV_FILE""#.into(), r#""Basic {}""#.into(), r#""/path""#.into()]
        }
        Kind::Secret | Kind::TextOrFalse | Kind::Words => {
            vec![
                r#""A_TOKEN""#.into(),
                r#""https://x.test""#.into(),
                r#""a""#.into(),
                r#""0123456789abcdef""#.into(),
                r#""10.0.0.0/8""#.into(),
            ]
        }
        Kind::Url => vec![r#""https://other.test/x""#.into()],
        Kind::TextList => vec![r#"["other"]"#.into()],
        Kind::TextsOrBlocks(_) => vec![r#"["0123456789abcdef"]"#.into()],
        Kind::Pairs => vec![r#"{ "X-Other": "other" }"#.into()],
        Kind::Variables => vec![r#"{ "X-Other": "A_TOKEN" }"#.into()],
        Kind::Duration(_) => vec![r#""7s""#.into(), r#""2s""#.into()],
        Kind::Seconds => vec!["7".into()],
        Kind::Millis => vec!["7000".into()],
        Kind::Integer(least, most) => {
            vec![((*least).max(7)).min(*most).to_string(), (*least).max(70_001).min(*most).to_string()]
        }
        Kind::Number(least, most) => {
            vec![least.max(0.25).min(*most).to_string(), least.max(7.5).min(*most).to_string()]
        }
        Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect(),
        Kind::Codes(words) => words.iter().map(|word| format!("{{ \"-32001\": \"{word}\" }}")).collect(),
        Kind::Statuses(words) => words.iter().map(|word| format!("{{ \"502\": \"{word}\" }}")).collect(),
        Kind::Block(_) | Kind::BlockOrFalse(_) | Kind::Each(_) | Kind::Foreign(_) | Kind::Unsupported(_) => Vec::new(),
    }
}

/// Collects the paths and kinds of all keys with a value.
fn leaves(keys: &'static [Key], path: &[&'static str], out: &mut Vec<(Vec<&'static str>, &'static Kind)>) {
    for key in keys {
        let path = [path, &[key.name]].concat();
        match &key.kind {
            Kind::Block(inner) | Kind::BlockOrFalse(inner) => leaves(inner, &path, out),
            Kind::Each(inner) => leaves(inner, &[&path[..], &["some"]].concat(), out),
            kind => out.push((path, kind)),
        }
    }
}

/// Objects for `auth` that lack one key, or no key.
const AUTH_BASES: [&str; 9] = [
    r#""type": "oauth""#,
    r#""type": "oauth", "clientId": "x""#,
    r#""type": "env""#,
    r#""type": "file""#,
    r#""type": "command""#,
    r#""type": "command", "command": ["x"]"#,
    r#""type": "clientCredentials", "clientId": "x""#,
    r#""type": "clientCredentials", "clientId": "x", "clientSecret": "x""#,
    r#""type": "clientCredentials", "clientId": "x", "privateKey": "x""#,
];

/// The keys of a block below `mendline` that require each other.
type Required = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Blocks with keys that are required.
const REQUIRED: [Required; 2] = [
    (&["access", "tls"], &[("certificate", "x")]),
    (&["access", "jwt"], &[("issuer", "https://y.test"), ("audience", "y")]),
];

#[test]
fn u11_every_key_that_is_offered_changes_something() {
    let directory = tempfile::tempdir().unwrap();
    let env_file = directory.path().join("env");
    std::fs::write(&env_file, "OTHER=1\n").unwrap();
    let understood = |server: &str, top: &str| {
        let text = format!(r#"{{ "mendline": {{ {top} }}, "mcpServers": {{ "a": {{ {server} }} }} }}"#);
        let text = text.replace("ENV_FILE", env_file.to_str().unwrap());
        let loaded = loaded("config.json", &text);
        (!loaded.has_errors()).then(|| format!("{:?} {:?} {:?}", loaded.servers, loaded.logs, loaded.access))
    };
    let nested = |path: &[&str], value: &str| {
        // `burst` requires `perSecond`.
        let beside = if path.ends_with(&["rateLimit", "burst"]) { r#", "perSecond": 1"# } else { "" };
        let (last, before) = path.split_last().unwrap();
        let inner = format!("\"{last}\": {value}{beside}");
        before.iter().rev().fold(inner, |inner, key| format!("\"{key}\": {{ {inner} }}"))
    };
    let (mut of_servers, mut of_mendline) = (Vec::new(), Vec::new());
    leaves(keys::SERVER, &[], &mut of_servers);
    leaves(keys::MENDLINE, &[], &mut of_mendline);
    let mut idle = Vec::new();
    for (path, kind) in of_servers {
        let changes = values(kind).iter().any(|value| {
            if let ["auth", inner @ ..] = path.as_slice()
                && inner != ["type"]
            {
                // Each key of `auth` belongs to a type, which requires other keys.
                return AUTH_BASES.iter().any(|base| {
                    let of = |auth: &str| understood(&format!(r#""url": "https://x.test/", "auth": {{ {auth} }}"#), "");
                    let with = of(&format!("{base}, {}", nested(inner, value)));
                    with.is_some() && with != of(base)
                });
            }
            if path == ["tls", "clientKey"] {
                // It requires the certificate.
                let of = |key: &str| {
                    let tls = format!(r#""url": "https://x.test/", "tls": {{ "clientCertificate": "x"{key} }}"#);
                    understood(&tls, "")
                };
                let with = of(&format!(r#", "clientKey": {value}"#));
                return with.is_some() && with != of("");
            }
            let own = nested(&path, value);
            let bases = [
                r#""command": "x""#,
                r#""url": "https://x.test/""#,
                r#""rateLimit": { "perSecond": 1 }, "command": "x""#,
            ];
            bases.iter().any(|base| {
                let with = understood(&format!("{base}, {own}"), "");
                with.is_some() && with != understood(base, "")
            }) || understood(&own, "").is_some()
        });
        if !changes && !matches!(kind, Kind::Foreign(_) | Kind::Unsupported(_)) {
            idle.push(path.join("."));
        }
    }
    for (path, kind) in of_mendline {
        let base = r#""command": "x""#;
        let changes = values(kind).iter().any(|value| {
            if let Some((block, required)) = REQUIRED.iter().find(|(block, _)| path.starts_with(block)) {
                let of = |key: &str, value: &str| {
                    let others = required.iter().filter(|(name, _)| *name != key);
                    let others = others.map(|(name, value)| format!("\"{name}\": \"{value}\"")).collect::<Vec<_>>();
                    let own = (!key.is_empty()).then(|| nested(&path[block.len()..], value));
                    let inner = others.into_iter().chain(own).collect::<Vec<_>>().join(", ");
                    understood(base, &nested(block, &format!("{{ {inner} }}")))
                };
                let with = of(path[block.len()], value);
                return with.is_some() && with != of("", "");
            }
            [base, r#""url": "https://x.test/""#].iter().any(|base| {
                let with = understood(base, &nested(&path, value));
                with.is_some() && with != understood(base, "")
            })
        });
        if !changes && !matches!(kind, Kind::Foreign(_) | Kind::Unsupported(_)) {
            idle.push(format!("mendline.{}", path.join(".")));
        }
    }
    assert_eq!(idle, Vec::<String>::new(), "these keys have no effect");
}

#[test]
fn u11_every_key_of_a_token_changes_something() {
    let understood = |keys: &str| {
        let access = format!(r#""access": {{ "tokens": [{{ {keys} }}] }}"#);
        let text = format!(r#"{{ "mendline": {{ {access} }}, "mcpServers": {{ "a": {{ "command": "x" }} }} }}"#);
        let loaded = loaded("config.json", &text);
        (!loaded.has_errors()).then(|| format!("{:?}", loaded.access))
    };
    let without = understood(r#""token": "0123456789abcdef""#);
    assert!(without.is_some());
    for key in [
        r#""name": "ci""#,
        r#""servers": ["a"]"#,
        r#""tools": { "allow": ["x"] }"#,
        r#""tools": { "deny": ["x"] }"#,
        r#""expires": "2027-01-31""#,
        r#""expires": "2027-01-31T12:00:00Z""#,
        r#""rateLimit": { "perSecond": 2 }"#,
        r#""rateLimit": { "perSecond": 2, "burst": 7 }"#,
        r#""inFlight": 7"#,
    ] {
        let with = understood(&format!(r#""token": "0123456789abcdef", {key}"#));
        assert!(with.is_some() && with != without, "{key}");
    }
    // printf %s 0123456789abcdef | sha256sum
    let hash = "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
    assert_eq!(understood(&format!(r#""hash": "{hash}""#)), without, "the hash of the same token");
}

#[test]
fn checked_in_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mendline.schema.json");
    if std::env::var_os("MENDLINE_RECORD").is_some() {
        std::fs::write(path, format!("{}\n", schema())).unwrap_or_else(|error| panic!("{error}"));
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept.trim_end() == schema(),
        "docs/mendline.schema.json is outdated; run mendline schema > docs/mendline.schema.json"
    );
}

#[test]
fn guide_lists_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let mut page = std::fs::read_to_string(path).unwrap_or_default();
    if std::env::var_os("MENDLINE_RECORD").is_some()
        && let Some((before, table)) = page.split_once("| Key |")
    {
        let after: String = table.lines().skip_while(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
        page = format!("{before}{}{after}", key_table());
        std::fs::write(path, &page).unwrap_or_else(|error| panic!("{error}"));
    }
    for row in key_table().lines() {
        assert!(page.lines().any(|line| line == row), "docs/configuration.md lacks this row:\n{row}");
    }
    let example = page.split("```jsonc\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    let loaded = loaded("config.jsonc", example);
    assert!(!loaded.has_errors() && !loaded.servers.is_empty(), "{:?}", loaded.findings);
}
