//! `mendline explain` about a process that is gone.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::stage::{LATER, Stage};

#[test]
fn call_of_an_ended_process_is_explained_from_its_log() {
    let stage = Stage::new();
    let mut client = stage.bridge(&[], &["die-after=1"]);
    let failed = client.result("cut", "create_note", &json!({ "key": "k" }));
    let call = failed["_meta"]["dev.mendline/failure"]["call"].as_u64().unwrap_or_else(|| panic!("{failed}"));
    client.stdin = None;
    client.exit_code(LATER);
    for arguments in [vec!["explain", "--json"], vec!["explain", &call.to_string(), "notes", "--json"]] {
        let output = stage.command(&arguments).stdin(Stdio::null()).output().unwrap();
        let explanation: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert_eq!((&explanation["source"], &explanation["call"]), (&json!("log"), &json!(call)), "{explanation:#}");
        assert_eq!((&explanation["tool"], &explanation["ran"]), (&json!("create_note"), &json!("perhaps")));
        assert_eq!(explanation["rule"], "not_repeatable", "{explanation:#}");
        let kinds: Vec<&str> =
            explanation["steps"].as_array().unwrap().iter().map(|step| step["kind"].as_str().unwrap()).collect();
        assert!(kinds.contains(&"attempt_started") && kinds.contains(&"attempt_ended"), "{explanation:#}");
    }
}
