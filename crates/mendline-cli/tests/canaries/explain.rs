//! `mendline explain`, of a running process and of one that is gone, with secrets in the stderr of the server.

use serde_json::json;

use crate::canary::{HEADER, PASSWORD, VARIABLE, across_limits, forms};
use crate::client::{SOON, eventually};
use crate::home::{Home, search_to_the_end};

/// Names of the user and of the machine, which must not be shown.
const PERSON: &str = "wilhelmina";
const MACHINE: &str = "attic-computer";

#[test]
fn explanation_shows_no_secret_and_no_name() {
    let home = Home::new();
    let said: Vec<String> = forms(VARIABLE).into_iter().chain(across_limits(VARIABLE)).collect();
    let said = home.give("said", &(said.join("\n") + &format!("\nError: {PASSWORD} of {PERSON} on {MACHINE}\n")));
    let entry = json!({
        "command": "sh",
        "args": ["-c", format!("cat {said} >&2; exit 3"), "--token", PASSWORD],
        "env": { "SVC_TOKEN": VARIABLE },
        "timeouts": { "recovery": "1s" },
    });
    let file = home.give("servers.json", &json!({ "mcpServers": { "near": entry } }).to_string());
    let mut client = home.bridge(&["--config", &file, "near"], &[]);
    client.request("init", "initialize", &json!({ "protocolVersion": "2025-11-25", "capabilities": {} }));
    let _ = client.answer("init");
    eventually("the failed call is logged", SOON, || home.is_observable("call_failed"));
    let variables =
        [("MENDLINE_CONFIG", file.as_str()), ("USER", PERSON), ("HOSTNAME", MACHINE), ("GITHUB_TOKEN", HEADER)];
    let lines: [&[&str]; 3] = [&["explain"], &["explain", "--json"], &["explain", "last", "near"]];
    let check = |source: &str| {
        let explanations = home.search_commands(&lines, &variables);
        for explanation in &explanations {
            let lower = explanation.to_lowercase();
            assert!(!lower.contains(PERSON) && !lower.contains(MACHINE), "{explanation}");
            assert!(!explanation.contains(home.path().to_str().unwrap()), "{explanation}");
            assert!(explanation.contains("exit code 3"), "{explanation}");
        }
        assert!(explanations[0].contains(source) && explanations[0].contains("initialize of near"), "{explanations:?}");
        assert!(explanations[0].contains("Error: ‹secret› of ‹user› on ‹host›"), "{explanations:?}");
    };
    check("running");
    search_to_the_end(client);
    check("from its log files");
}
