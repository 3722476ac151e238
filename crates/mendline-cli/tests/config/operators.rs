//! The configurations of `docs/recipes/operators.md`, with the fault server in the place of the platform.

use serde_json::{Value, json};

use mendline_faults::{Rule, Settings};

use crate::client::{SOON, eventually};
use crate::site::{Site, json_answers};
use crate::stage::{Stage, file};

const PAGE: &str = include_str!("../../../../docs/recipes/operators.md");

/// Returns the configuration below a heading of the page, with this URL in the place of its own.
fn recipe(heading: &str, url: &str) -> String {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let snippet = section.split("```jsonc\n").nth(1).unwrap().split("```").next().unwrap();
    let (before, after) = snippet.split_once("https://").unwrap();
    let (_, after) = after.split_once('"').unwrap();
    format!("{before}{url}\"{after}")
}

#[test]
fn silent_response_is_sent_once_with_the_recipe() {
    for status in [504, 524] {
        let site = Site::start(json_answers());
        let text = recipe("Limits of idle connections and silent responses", &site.url());
        let recipe = Stage::with(&text.replace("yearly_report", "lookup"));
        let usual = Stage::with(&file(&json!({ "reports": { "url": site.url() } })));
        for (stage, key, is_error, executions) in [(&recipe, "recipe", true, 1), (&usual, "usual", false, 2)] {
            let mut client = stage.faulty_client(&["reports"]);
            site.add_fault(Rule::new("h29_504").tool("lookup").nth(1).value(status));
            let answer = client.result("1", "lookup", &json!({ "key": key }));
            assert_eq!(
                (&answer["isError"], site.executions(key)),
                (&json!(is_error), executions),
                "{status}: {answer}"
            );
            let answer = client.result("2", "lookup", &json!({ "key": "next" }));
            assert_eq!(answer["isError"], json!(false), "{status}: {answer}");
            site.clear();
        }
    }
}

#[test]
fn function_gets_no_more_calls_at_once_than_the_recipe_allows() {
    let site = Site::start(Settings { sessions: false, ..json_answers() });
    let stage = Stage::with(&recipe("Serverless", &site.url()));
    let mut client = stage.faulty_client(&["lambda"]);
    let release = stage.home().join("release");
    let ids: Vec<String> = (0..14).map(|number| number.to_string()).collect();
    for id in &ids {
        client.call(id, "lookup", &json!({ "key": id, "until": release }));
    }
    eventually("four calls wait", SOON, || {
        let (_, printed) = stage.output(&["status", "lambda", "--json"]);
        let report: Value = serde_json::from_str(&printed).unwrap();
        let server = &report["servers"][0];
        (&server["inFlight"], &server["waiting"]) == (&json!(10), &json!(4))
    });
    site.until("the others run", |counts| counts.tools.get("lookup") == Some(&10));
    std::fs::write(release, "").unwrap();
    // The answers come in any order.
    let mut answered = Vec::new();
    while answered.len() < ids.len() {
        let answer: Value = serde_json::from_str(&client.line()).unwrap();
        assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
        answered.push(answer["id"].as_str().unwrap().to_owned());
    }
    answered.sort_by_key(|id| id.parse::<u32>().unwrap());
    assert_eq!(answered, ids);
    let counts = site.counts();
    assert_eq!((counts.tools.get("lookup"), counts.messages_of("ping")), (Some(&14), 0));
}
