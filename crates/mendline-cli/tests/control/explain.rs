//! `mendline explain`, compared with what happened to real servers.

use mendline_faults::Rule;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, STATE, kill};
use crate::site::{Site, json_answers};
use crate::stage::{Stage, child};

/// The steps of an explanation with this kind.
fn steps<'a>(explanation: &'a Value, kind: &str) -> Vec<&'a Value> {
    explanation["steps"].as_array().unwrap().iter().filter(|step| step["kind"] == kind).collect()
}

/// Starts a bridge to a site.
fn bridge(stage: &Stage, site: &Site) -> Client {
    let mut client = stage.run(&["--name", "notes", "--startup", "wait", &site.url()]);
    client.initialize();
    client
}

#[test]
fn retried_read_is_explained_with_its_attempts_and_rule() {
    let (stage, site) = (Stage::new(), Site::start(json_answers()));
    let mut client = bridge(&stage, &site);
    site.add_fault(Rule::new("h26_500").tool("lookup").first(1));
    client.result("a", "lookup", &json!({ "key": "k" }));
    let is_explained = |output: &crate::stage::CommandOutput| output.code == Some(0) && output.json()["ran"] == "yes";
    let explanation = stage.query_until(&["explain", "--json"], is_explained).json();
    assert_eq!((&explanation["server"], &explanation["tool"]), (&json!("notes"), &json!("lookup")));
    assert_eq!((&explanation["source"], &explanation["pid"]), (&json!("process"), &json!(client.process.id())));
    assert_eq!(explanation["client"], json!({ "name": "test", "version": "1" }));
    assert_eq!(explanation["rule"], "may_repeat", "{explanation:#}");
    let ended = steps(&explanation, "attempt_ended");
    assert_eq!(ended.len(), 1, "{explanation:#}");
    let evidence = ["written", "reply", "outcome", "status"].map(|member| ended[0][member].clone());
    assert_eq!(evidence, [json!("whole"), json!("status"), json!("unknown"), json!(500)]);
    assert_eq!(steps(&explanation, "attempt_started").len(), 2, "{explanation:#}");
    assert_eq!((&explanation["end"]["kind"], &explanation["end"]["result"]), (&json!("call_answered"), &json!("ok")));
    let number = explanation["call"].as_u64().unwrap().to_string();
    let text = stage.query(&["explain", &number, "notes"]).stdout;
    for words in [
        &format!("#{number} lookup of notes (process {}, running)", client.process.id()),
        "The client test 1 sent tools/call.",
        "Attempt 1: the whole request was written; HTTP 500 was read. Outcome unknown",
        "Sent again as attempt 2 of 3, by the rule may_repeat.",
        "The server answered with a result",
        "Did it run?  Yes. The server answered it; an earlier attempt may have run as well.",
        "Rule         may_repeat: ",
        "Next step    Nothing: the client has the result.",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
}

#[test]
fn cut_unsafe_call_may_have_run_and_is_not_repeated() {
    let stage = Stage::new();
    let gate = stage.folder().join("gate");
    let mut client = stage.bridge("notes");
    client.call("cut", "create_note", &json!({ "key": "k", "until": gate }));
    let server = stage.until("notes", "it runs", |server| server["inFlight"] == 1);
    kill(child(&server), Signal::KILL);
    client.answer("cut");
    let is_over = |output: &crate::stage::CommandOutput| output.code == Some(0) && output.json()["end"].is_object();
    let explanation = stage.query_until(&["explain", "last", "notes", "--json"], is_over).json();
    assert_eq!((&explanation["ran"], &explanation["rule"]), (&json!("perhaps"), &json!("not_repeatable")));
    assert_eq!(explanation["end"]["outcome"], "unknown", "{explanation:#}");
    assert!(!steps(&explanation, "link_state_changed").is_empty(), "the loss is a step: {explanation:#}");
    assert!(explanation["nextSteps"][0].as_str().unwrap().contains("whether create_note ran"), "{explanation:#}");
}

#[test]
fn rejected_call_is_explained_without_a_number() {
    let stage = Stage::new();
    let mut client = stage.bridge("notes");
    client.result("before", "lookup", &json!({ "key": "k" }));
    assert_eq!(stage.control(&["isolate", "notes"]).code, Some(0));
    client.result("after", "lookup", &json!({ "key": "k" }));
    let is_rejected = |output: &crate::stage::CommandOutput| output.stdout.contains("call_rejected");
    let explanation = stage.query_until(&["explain", "--json"], is_rejected).json();
    assert_eq!((&explanation["ran"], &explanation["rule"]), (&json!("no"), &json!("isolated")), "{explanation:#}");
    assert_eq!(explanation["call"], Value::Null);
    let steps = explanation["nextSteps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step.as_str().unwrap().contains("`mendline resume notes")), "{explanation:#}");
}

#[test]
fn unknown_call_and_name_are_errors_that_name_others() {
    let stage = Stage::new();
    let state = stage.folder().join("empty");
    let query = |arguments: &[&str]| {
        let output = stage.command(arguments).env(STATE, &state).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, words) = query(&["explain"]);
    assert!(code == Some(1) && words.starts_with("No call is known yet"), "{code:?} {words}");
    let mut client = stage.bridge("notes");
    client.result("a", "lookup", &json!({ "key": "k" }));
    let (code, words) = query(&["explain", "999999"]);
    assert!(code == Some(3) && words.contains("there is no call #999999"), "{code:?} {words}");
    assert!(words.contains("lookup of notes, healthy"), "{words}");
    let (code, words) = query(&["explain", "last", "nots"]);
    assert!(code == Some(3) && words.contains("did you mean \"notes\"?"), "{code:?} {words}");
    let (code, words) = query(&["explain", "first"]);
    assert!(code == Some(2) && words.contains("or `last`"), "{code:?} {words}");
}
