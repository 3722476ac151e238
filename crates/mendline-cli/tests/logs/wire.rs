//! The messages themselves, for those who asked for them.

use serde_json::json;

use crate::client::Client;
use crate::site::{Site, event_answers, json_answers};
use crate::stage::{Stage, end};

fn arrows(stage: &Stage, of: &str) -> Vec<String> {
    let told = stage.told(&["--wire", "--full", "-n", "all"]);
    let ways = ["client → ", "→ server ", "← server ", "client ← "];
    let lines = told.stdout.lines().filter(|line| line.contains(of));
    lines.filter_map(|line| ways.iter().find(|way| line.contains(**way))).map(|way| way.trim().to_owned()).collect()
}

#[test]
fn a_message_is_seen_on_each_of_its_ways_with_a_child_and_over_http() {
    let expected = ["client →", "→ server", "← server", "client ←"];
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    // The answer says the key again.
    assert_eq!(arrows(&stage, "needle"), expected);
    for answers in [json_answers(), event_answers()] {
        let (stage, site) = (Stage::new(), Site::start(answers));
        let mut command = stage.command(&["run", "--record-wire", &site.url()]);
        let mut client = Client::start(command.stdin(std::process::Stdio::piped()));
        client.greet();
        client.result("a", "create_note", &json!({ "key": "needle" }));
        end(client);
        assert_eq!(arrows(&stage, "needle"), expected);
    }
}

#[test]
fn messages_are_kept_only_when_that_was_asked_for_and_shown_only_then() {
    let stage = Stage::new();
    let mut client = stage.bridge(&[], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    let told = stage.told(&["--wire"]);
    assert!(!told.stdout.contains("needle") && told.stderr.contains("--record-wire"), "{told:?}");
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    assert!(!stage.told(&["--level", "debug"]).stdout.contains("needle"));
}

#[test]
fn a_long_message_is_shortened_unless_all_of_it_is_wanted() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire"], &[]);
    client.request("a", "demo/echo", &json!({ "text": "x".repeat(300_000) }));
    client.answer("a");
    end(client);
    let long = |arguments: &[&str]| stage.told(arguments).stdout.lines().map(str::len).max().unwrap();
    assert!(long(&["--wire"]) < 300);
    assert!(stage.told(&["--wire"]).stdout.contains("… (300"));
    let full = long(&["--wire", "--full"]);
    assert!((10_000..20_000).contains(&full), "{full}");
}

#[test]
fn the_story_of_a_call_has_its_messages_in_it() {
    let stage = Stage::new();
    let mut client = stage.bridge(&["--record-wire", "--log-file-level", "debug"], &[]);
    client.result("a", "lookup", &json!({ "key": "needle" }));
    end(client);
    let records = stage.records();
    let answered = records.iter().find(|it| it["kind"] == "CallAnswered" && it["method"] == "tools/call").unwrap();
    let told = stage.told(&["--wire", "--call", &answered["call"].to_string()]);
    assert!(told.stdout.contains("→ server ") && told.stdout.contains("← server "), "{told:?}");
    assert_eq!(told.stdout.lines().count(), 5, "{told:?}");
}
