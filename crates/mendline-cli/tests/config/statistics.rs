//! `mendline stats`: the counts agree with what happened.

use rustix::process::Signal;
use serde_json::{Value, json};

use mendline_faults::Rule;

use crate::client::{Client, SOON, eventually, kill};
use crate::site::{Site, json_answers};
use crate::stage::{Stage, demo, file};

/// Returns the counts of a server.
fn counts(stage: &Stage, name: &str) -> Value {
    let (code, printed) = stage.output(&["stats", name, "--json"]);
    assert_eq!(code, 0, "{printed}");
    let all: Value = serde_json::from_str(&printed).unwrap();
    all["servers"][0].clone()
}

fn end(client: &mut Client) {
    client.stdin.take();
    assert_eq!(client.exit_code(SOON), Some(0));
}

#[test]
fn restarts_and_saved_calls_of_two_processes_are_counted() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let (mut one, mut two) = (stage.client(&["notes"]), stage.client(&["notes"]));
    for (who, client, rounds) in [("one", &mut one, 2), ("two", &mut two, 1)] {
        for round in 0..rounds {
            // The read is in flight when its server dies, and is answered by the next one.
            let key = format!("{who}{round}");
            let release = stage.home().join(&key);
            client.call(&key, "lookup", &json!({ "key": key, "until": release }));
            eventually("the server has the call", SOON, || stage.executions("lookup", &key) == 1);
            kill(server_of(client, &stage), Signal::KILL);
            std::fs::write(release, "").unwrap();
            let answer = client.answer(&key);
            assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
            assert_eq!(stage.executions("lookup", &key), 2);
        }
    }
    end(&mut one);
    end(&mut two);
    let counts = counts(&stage, "notes");
    assert_eq!(
        (&counts["restarts"], &counts["saved"], &counts["failed"]),
        (&json!(3), &json!(3), &json!(0)),
        "{counts}"
    );
    assert_eq!(counts["retries"], json!(3), "{counts}");
    assert!(counts["awayMs"].as_u64().unwrap() > 0, "{counts}");
    let (code, printed) = stage.output(&["stats"]);
    assert!(code == 0 && printed.contains("RESTARTS") && printed.contains("notes"), "{printed}");
}

/// Returns the running server of this process.
fn server_of(client: &Client, stage: &Stage) -> i32 {
    let own = client.process.id().to_string();
    let is_child = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == own))
    };
    stage.started().into_iter().rfind(is_child).unwrap()
}

#[test]
fn cut_responses_count_as_retries_and_saved_calls() {
    let site = Site::start(json_answers());
    let stage = Stage::with(&file(&json!({ "faulty": { "url": site.url() } })));
    let mut client = stage.faulty_client(&["faulty"]);
    site.add_fault(Rule::new("t13_reset_before_headers").tool("lookup").nth(1));
    for number in 0..4 {
        let answer = client.result(&number.to_string(), "lookup", &json!({ "key": format!("k{number}") }));
        assert_eq!(answer["isError"], json!(false), "{answer}");
    }
    end(&mut client);
    let counts = counts(&stage, "faulty");
    let figures = ["retries", "saved", "failed", "restarts"].map(|name| counts[name].as_u64().unwrap());
    assert_eq!(figures, [1, 1, 0, 0], "{counts}");
    assert_eq!(site.executions("k0"), 2, "the cut call was sent twice");
}

#[test]
fn healthy_server_has_calls_and_no_recoveries() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut client = stage.client(&["notes"]);
    client.result("1", "lookup", &json!({ "key": "k" }));
    end(&mut client);
    let counts = counts(&stage, "notes");
    assert_eq!(
        (&counts["restarts"], &counts["saved"], &counts["answered"]),
        (&json!(0), &json!(0), &json!(3)),
        "{counts}"
    );
    let (code, printed) = stage.output(&["stats", "nodes"]);
    assert!(code == 3 && printed.contains("did you mean \"notes\"?"), "{printed}");
}

#[test]
fn status_has_one_line_about_recoveries() {
    let stage = Stage::with(&file(&json!({ "notes": demo() })));
    let mut client = stage.client(&["notes"]);
    kill(server_of(&client, &stage), Signal::KILL);
    client.result("1", "lookup", &json!({ "key": "k" }));
    let line = "Recovered in the last 7 days: 1 restart";
    eventually("the status has the line", SOON, || stage.output(&["status"]).1.contains(line));
}
