//! Mistakes on the command line: the error names the flag and the expected form, never the value, and no command
//! panics.

use std::collections::BTreeMap;

use serde_json::json;

use crate::stage::{MENDLINE, Stage, finish};

const SECRET: &str = "S3cretCanary";

/// Runs a command and returns its exit code and everything that it wrote.
fn run(stage: &Stage, arguments: &[&str]) -> (Option<i32>, String) {
    let ended = finish(&mut stage.command(arguments));
    let text = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn stage() -> Stage {
    let demo = json!({ "command": MENDLINE, "args": ["demo-server"] });
    let remote = json!({ "url": "http://127.0.0.1:9/mcp" });
    let wrapped = |arguments: &[&str]| json!({ "command": "mendline", "args": arguments });
    let header = format!("Bearer {SECRET}");
    Stage::new(&json!({ "mcpServers": {
        "demo": demo,
        "remote": remote,
        "one": wrapped(&["run", "--header", "Authorization:", "Bearer", SECRET, "http://127.0.0.1:9/"]),
        "two": wrapped(&["run", "--header-env", &header, "http://127.0.0.1:9/"]),
        "three": wrapped(&["run", "--call-timeout", SECRET, "http://127.0.0.1:9/"]),
        "four": wrapped(&["run", "--url-env", &format!("https://me:{SECRET}@x.test/")]),
    } }))
}

#[test]
fn s10_usage_error_names_flag_and_never_value() {
    let stage = stage();
    let url = "http://127.0.0.1:9/";
    let (colon, equals) = (format!("Authorization: Bearer {SECRET}"), format!("Authorization=Bearer {SECRET}"));
    let (bearer, base64) = (format!("Bearer {SECRET}"), format!("{SECRET}=="));
    let (holder, brace) = (format!("Authorization={SECRET}"), format!("Authorization: Bearer ${{{SECRET}}}"));
    let (odd, open) = (format!("Authorization: ${{{SECRET}-x}}"), format!("Authorization: ${{{SECRET}"));
    let (named, user) = (format!("Bearer {SECRET}: x"), format!("https://me:{SECRET}@127.0.0.1:9/mcp"));
    let (scheme, bare) = (format!("ftp://127.0.0.1/{SECRET}"), format!("me:{SECRET}@127.0.0.1/mcp"));
    let (path, query) = (format!("http://[/{SECRET}"), format!("http://127.0.0.1:9/?key=${{{SECRET}}}"));
    let slips: Vec<(&str, Vec<&str>)> = vec![
        ("--header-env", vec!["--header-env", &colon, url]),
        ("--header-env", vec!["--header-env", &equals, url]),
        ("--header-env", vec!["--header-env", &holder, url]),
        ("--header-env", vec!["--header-env", &base64, url]),
        ("--header-env", vec!["--header-env", SECRET, url]),
        ("--header-env", vec!["--header-env", &equals, "remote"]),
        ("--header ", vec!["--header", SECRET, url]),
        ("--header ", vec!["--header", &bearer, url]),
        ("--header ", vec!["--header", &equals, url]),
        ("--header ", vec!["--header", &named, url]),
        ("--header", vec!["--header", &brace, url]),
        ("--header", vec!["--header", &odd, url]),
        ("--header", vec!["--header", &open, url]),
        ("--header ", vec!["--header", "Authorization:", url]),
        ("--url-env", vec!["--url-env", &user]),
        ("--url-env", vec!["--url-env", SECRET]),
        ("", vec![&user]),
        ("", vec![&scheme]),
        ("", vec![&bare]),
        ("", vec![&path]),
        ("", vec![&query]),
        ("--connect-timeout", vec!["--connect-timeout", SECRET, url]),
        ("--transport", vec!["--transport", SECRET, url]),
    ];
    for (flag, words) in &slips {
        for command in ["run", "tools", "doctor", "call"] {
            let rest: &[&str] = if command == "call" { &["lookup"] } else { &[] };
            let line = [&[command], words.as_slice(), rest].concat();
            let (code, text) = run(&stage, &line);
            assert!(!text.contains(SECRET), "{line:?}: {text}");
            assert!(text.contains(flag), "{line:?}: {text}");
            // A name is looked up, and an unknown name has its own exit code.
            assert!(code == Some(2) || (flag.is_empty() && code == Some(3)), "{line:?}: {code:?} {text}");
        }
    }
}

#[test]
fn s10_unquoted_header_and_extra_words_are_not_repeated() {
    let stage = stage();
    let (pair, twice) = (format!("n={SECRET}"), format!("delayMs={SECRET}"));
    let user = format!("https://me:{SECRET}@127.0.0.1:9/mcp");
    for line in [
        &["run", "--header", "Authorization:", "Bearer", SECRET, "http://127.0.0.1:9/"][..],
        &["run", "--header", "Authorization:", SECRET],
        &["doctor", "--header", "Authorization:", SECRET],
        &["run", "--name", &format!("Bearer {SECRET}"), "demo"],
        &["run", &format!("--token={SECRET}"), "demo"],
        &["run", "--rate-limit", SECRET, "demo"],
        &["run", "--effect", SECRET, "demo"],
        &["run", "--tool-timeout", &pair, "demo"],
        &["call", "demo", "lookup", "--arg", SECRET],
        &["call", "demo", "lookup", "--arg", &twice],
        &["call", "--timeout", SECRET, "demo", "lookup"],
        &["status", "--within", SECRET, "--probe"],
        &[&user],
        &["check", "--token", SECRET],
    ] {
        let (code, text) = run(&stage, line);
        assert!(!text.contains(SECRET), "{line:?}: {text}");
        assert_eq!(code, Some(2), "{line:?}: {text}");
    }
}

#[test]
fn s10_mistake_in_entry_is_not_repeated() {
    let stage = stage();
    for line in
        [&["check"][..], &["run", "one"], &["run", "two"], &["tools", "three"], &["doctor", "four"], &["doctor"]]
    {
        let (code, text) = run(&stage, line);
        assert!(!text.contains(SECRET), "{line:?}: {text}");
        assert!(matches!(code, Some(1 | 2)), "{line:?}: {code:?} {text}");
    }
}

/// Returns every flag of every command whose help describes its value like this.
fn flags(stage: &Stage, is_meant: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<(String, String)>> {
    let mut found = BTreeMap::new();
    for command in stage.commands().into_iter().filter(|command| command != "help") {
        let has_more = ["run", "call", "tools", "doctor"].contains(&command.as_str());
        let (code, help) = run(stage, &[&command, if has_more { "--help-all" } else { "--help" }]);
        assert_eq!(code, Some(0), "{help}");
        let flags = help.lines().filter_map(|line| {
            let (_, line) = line.split_once("--")?;
            let (name, rest) = line.split_once(' ')?;
            let (value, _) = rest.strip_prefix('<')?.split_once('>')?;
            is_meant(value).then(|| (format!("--{name}"), value.to_owned()))
        });
        found.insert(command, flags.collect());
    }
    found
}

/// Runs every such flag with every such value.
fn refused(found: &BTreeMap<String, Vec<(String, String)>>, stage: &Stage, values: &[&str]) {
    for (command, flags) in found {
        for ((flag, kind), value) in flags.iter().flat_map(|flag| values.iter().map(move |value| (flag, value))) {
            let tool = if kind.starts_with("TOOL=") { "search=" } else { "" };
            let (code, text) = run(stage, &[command, &format!("{flag}={tool}{value}"), "http://127.0.0.1:9/"]);
            assert_eq!(code, Some(2), "{command} {flag}={tool}{value}: {text}");
            assert!(
                !text.contains("panicked") && text.contains(flag.as_str()),
                "{command} {flag}={tool}{value}: {text}"
            );
        }
    }
}

#[test]
fn s11_absurd_duration_is_refused_by_every_flag() {
    let stage = stage();
    let found = flags(&stage, |value| value.contains("DURATION"));
    assert!(found.values().flatten().count() >= 20, "{found:?}");
    let values = [
        "500000000000y",
        "31days",
        "99999999999999999999s",
        "0",
        "0s",
        "5",
        "-1",
        "-5s",
        "NaN",
        "inf",
        "",
        "1ns",
        "1e400s",
    ];
    refused(&found, &stage, &values);
}

#[test]
fn s11_absurd_number_is_refused_by_every_flag() {
    let stage = stage();
    let found = flags(&stage, |value| matches!(value, "N" | "X" | "LINES|all" | "N/s|m|h[:BURST]" | "PORT"));
    assert!(found.values().flatten().count() >= 9, "{found:?}");
    refused(&found, &stage, &["NaN", "", "-99", "99999999999999999999", "1e400", "0x10"]);
}

#[test]
fn s11_absurd_log_time_does_not_panic() {
    let stage = stage();
    for value in ["500000000000y", "0s", "9999-12-31", "0000-01-01", "99999-01-01", "-5s", "", "NaN"] {
        for flag in ["--since", "--until"] {
            let (code, text) = run(&stage, &["logs", &format!("{flag}={value}")]);
            assert!(matches!(code, Some(1..=3)), "{flag}={value}: {code:?} {text}");
            assert!(!text.contains("panicked"), "{text}");
        }
    }
}
