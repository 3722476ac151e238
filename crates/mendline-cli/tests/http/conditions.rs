//! The conditions of a server: the scenarios of the promises with real processes.
//!
//! Other scenarios have their tests elsewhere: a lost session under a cut response and refused resumptions in
//! `framing.rs`, cut responses in `cuts.rs`, commands in `heal/conditions.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mendline_faults::toxic::{BlackHole, HalfOpen, Toxic};
use mendline_faults::{Answers, Direction, Outage, Proxy, Rule, Settings};
use serde_json::{Value, json};

use crate::client::{Client, MENDLINE, SOON, eventually, failure};
use crate::recording_proxy::RecordingProxy;
use crate::site::{Site, WAITING, discovered, event_answers, json_answers, modern, run, with_modern_meta};

/// The factor by which a busy machine may exceed a promised time.
const BUSY: u32 = 3;

/// Returns the next answer and its id; skips notifications.
fn next(client: &mut Client, within: Duration) -> (String, Value) {
    let deadline = Instant::now() + within;
    loop {
        let line = client.line_within(deadline.saturating_duration_since(Instant::now()));
        let message: Value = serde_json::from_str(&line).unwrap();
        if let (Some(id), None) = (message["id"].as_str(), message.get("method")) {
            return (id.to_owned(), message["result"].clone());
        }
    }
}

/// Returns this many answers by their ids.
fn answers(client: &mut Client, count: usize, within: Duration) -> BTreeMap<String, Value> {
    let deadline = Instant::now() + within;
    let mut answers = BTreeMap::new();
    for _ in 0..count {
        let (id, result) = next(client, deadline.saturating_duration_since(Instant::now()));
        assert!(answers.insert(id, result).is_none(), "one answer per request");
    }
    answers
}

#[test]
fn scenario_b_tool_that_always_answers_500_delays_no_other() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("h26_500").tool("lookup"));
    let begin = Instant::now();
    for number in 0..20 {
        client.call(&format!("read {number}"), "lookup", &json!({ "key": format!("r{number}") }));
    }
    // Other calls follow one another until all reads have failed.
    let (mut reads, mut writes, mut writes_at_first_failure) = (0, 0, None);
    let mut spent = 0;
    client.call("write 0", "create_note", &json!({ "key": "w0" }));
    while reads < 20 {
        let (id, result) = next(&mut client, SOON);
        if id.starts_with("write") {
            assert_eq!(result["content"][0]["text"], format!("wrote w{writes}"), "{result}");
            writes += 1;
            client.call(&format!("write {writes}"), "create_note", &json!({ "key": format!("w{writes}") }));
            continue;
        }
        reads += 1;
        writes_at_first_failure.get_or_insert(writes);
        // The breaker of the tool opens with the fifth failure and ends the calls that wait for another attempt.
        let (cause, attempts) = (failure(&result)["cause"].clone(), failure(&result)["attempts"].as_u64().unwrap());
        match cause.as_str().unwrap() {
            "outcome_unknown" => assert_eq!(attempts, 3, "{result}"),
            "breaker_open" => assert!(reads > 5 && attempts < 3, "{result}"),
            _ => panic!("{result}"),
        }
        assert_eq!(failure(&result)["outcome"], "unknown", "{result}");
        spent += attempts;
    }
    assert!(begin.elapsed() < BUSY * Duration::from_secs(3), "{:?}", begin.elapsed());
    assert!(writes_at_first_failure > Some(0), "a write is answered before the first read has failed");
    let (id, result) = next(&mut client, SOON);
    assert_eq!((id, &result["isError"]), (format!("write {writes}"), &json!(false)));
    assert_eq!(site.counts().messages_of("tools/call"), spent + writes + 1);
    assert_eq!(site.counts().sessions_opened, 1);
    let log = client.whole_log();
    assert!(!log.contains("away: calls wait"), "{log}");
}

#[test]
fn scenario_c_reads_succeed_soon_after_balancer_answered_502() {
    let site = Site::start(Settings { sessions: false, ..modern(Answers::Json) });
    let mut client = discovered(&site, &[]);
    let before = site.counts().messages_of("tools/call");
    site.begin_outage(Outage::Page { status: 502, retry_after: None });
    let begin = Instant::now();
    for number in 0..8 {
        let params = json!({ "name": "lookup", "arguments": { "key": format!("k{number}") } });
        client.request(&number.to_string(), "tools/call", &with_modern_meta(params));
    }
    eventually("it is known to be away", SOON, || client.log().contains("away: calls wait"));
    eventually("the outage has lasted", SOON, || begin.elapsed() >= Duration::from_secs(10));
    site.end_outage();
    let end = Instant::now();
    for (id, result) in answers(&mut client, 8, SOON) {
        assert_eq!(result["content"][0]["text"], format!("k{id} is 42"), "{result}");
    }
    assert!(end.elapsed() < BUSY * Duration::from_millis(2_500), "{:?}", end.elapsed());
    let counts = site.counts();
    assert!((0..8).all(|number| counts.executions_of(&format!("k{number}")) == 1), "{counts:?}");
    // Calls that were sent before the first failure was known are sent once more, the others only once.
    assert!((8..=16).contains(&(counts.messages_of("tools/call") - before)), "{counts:?}");
}

/// Makes the connections of a proxy swallow what `send` sends. Later connections work.
fn swallow(proxy: &Proxy, send: impl FnOnce()) {
    let toxics = [Toxic::HalfOpen(HalfOpen {}), Toxic::BlackHole(BlackHole {})];
    let toxics = toxics.map(|toxic| proxy.add(Direction::Both, toxic));
    let before = proxy.counts().up.lost;
    send();
    eventually("the request is swallowed", SOON, || proxy.counts().up.lost > before);
    toxics.into_iter().for_each(|toxic| _ = proxy.remove(toxic));
}

/// The read takes as long as a call may be silent: thirty seconds, which no setting changes.
#[test]
fn scenario_d_only_repeatable_requests_that_are_swallowed_are_resent() {
    const HANDSHAKE: Duration = Duration::from_secs(2);
    const SILENCE: Duration = Duration::from_secs(30);
    let site = Site::start(json_answers());
    let proxy = site.proxy();
    let options = [&WAITING[..], &["--handshake-timeout", "2s", "--tool-timeout", "create_note=3s"]].concat();
    let begin = Instant::now();
    let mut client = run(&format!("http://{}/mcp", proxy.address()), &options, &[]);
    let who = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who });
    swallow(&proxy, || client.request("init", "initialize", &hello));
    let handshake = client.answer("init");
    assert_eq!(handshake["result"]["serverInfo"]["name"], "mendline-faults", "{handshake}");
    assert!(begin.elapsed() >= HANDSHAKE, "{:?}", begin.elapsed());
    assert_eq!(site.counts().messages_of("initialize"), 1, "the first one was swallowed");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.request("list", "tools/list", &json!({}));
    assert!(client.answer("list")["result"]["tools"].is_array());

    let begin = Instant::now();
    swallow(&proxy, || client.call("read", "lookup", &json!({ "key": "read" })));
    let read = client.answer_within("read", SILENCE + SOON)["result"].clone();
    assert_eq!(read["content"][0]["text"], "read is 42", "{read}");
    assert!(begin.elapsed() >= SILENCE, "{:?}", begin.elapsed());
    let counts = site.counts();
    assert_eq!((counts.executions_of("read"), counts.messages_of("tools/call")), (1, 1), "{counts:?}");

    // Nothing else may be swallowed in place of the next call.
    site.until("the silent attempt is cancelled", |counts| counts.messages_of("notifications/cancelled") == 1);
    swallow(&proxy, || client.call("write", "create_note", &json!({ "key": "write" })));
    let write = client.answer("write")["result"].clone();
    assert_eq!(failure(&write)["cause"], "timed_out", "{write}");
    assert_eq!((&failure(&write)["outcome"], &failure(&write)["attempts"]), (&json!("unknown"), &json!(1)), "{write}");
    let next = client.result("next", "create_note", &json!({ "key": "next" }));
    assert_eq!(next["content"][0]["text"], "wrote next", "{next}");
    let counts = site.counts();
    assert_eq!((counts.executions_of("write"), counts.executions_of("next")), (0, 1), "{counts:?}");
    assert_eq!((counts.messages_of("initialize"), counts.sessions_opened), (1, 1), "{counts:?}");
    let log = client.whole_log();
    assert!(log.contains("lookup: silent for 30 s") && log.contains("retrying (attempt 2 of 3)"), "{log}");
}

#[test]
fn scenario_e_overloaded_server_gets_one_request_per_pause() {
    const CALLS: u64 = 64;
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    site.add_fault(Rule::new("h31_429_bare").verb("POST").during(Duration::from_secs(10)));
    for number in 0..CALLS {
        client.call(&number.to_string(), "create_note", &json!({ "key": format!("k{number}") }));
    }
    for (id, result) in answers(&mut client, CALLS as usize, 3 * SOON) {
        assert_eq!(result["content"][0]["text"], format!("wrote k{id}"), "{result}");
    }
    let counts = site.counts();
    assert!((0..CALLS).all(|number| counts.executions_of(&format!("k{number}")) == 1), "{counts:?}");
    // Beside those that were sent before the first 429 was read, at most one goes out per pause, and the first pauses
    // last at least 0.25, 0.5 and 1 s, the others at least 1.2 s.
    let refused = counts.struck_by("h31_429_bare");
    assert!((1..=CALLS + 11).contains(&refused), "{refused}");
    assert_eq!(counts.messages_of("tools/call") + counts.messages_of("ping"), refused + CALLS);

    // With a pause of one hour calls are answered at once.
    site.add_fault(Rule::new("h30_429_retry_after").verb("POST").value(3_600));
    let refused = client.result("first", "create_note", &json!({ "key": "first" }));
    let rejected = client.result("second", "create_note", &json!({ "key": "second" }));
    for (result, outcome) in [(refused, "refused"), (rejected, "not_sent")] {
        assert_eq!(failure(&result)["cause"], "rate_limited", "{result}");
        assert_eq!(failure(&result)["outcome"], outcome, "{result}");
    }
    assert_eq!(site.counts().struck_by("h30_429_retry_after"), 1);
}

#[test]
fn scenario_f_each_expired_session_is_replaced_after_one_ping() {
    let site = Site::start(event_answers());
    let mut client = site.client(&[]);
    let gates = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        site.until("the GET stream is open", |counts| counts.gets >= round);
        let gate = gates.path().join(round.to_string());
        let tool = |number: u64| if number.is_multiple_of(2) { "lookup" } else { "create_note" };
        for number in 0..8 {
            let key = format!("old {round} {number}");
            client.call(&key, tool(number), &json!({ "key": key, "until": gate }));
        }
        site.until("they run", |counts| (0..8).all(|n| counts.executions_of(&format!("old {round} {n}")) == 1));
        // Only the session expires: what runs goes on.
        site.add_fault(Rule::new("h34_404_session_expired").tool("big").nth(1));
        client.call(&format!("expires {round}"), "big", &json!({ "key": "expires", "bytes": 1 }));
        for number in 0..8 {
            let key = format!("new {round} {number}");
            client.call(&key, tool(number), &json!({ "key": key }));
        }
        let results = answers(&mut client, 9, SOON);
        assert!(results.values().all(|result| result["isError"] == false), "{results:?}");
        fs::write(&gate, "").unwrap();
        let results = answers(&mut client, 8, SOON);
        assert!(results.values().all(|result| result["isError"] == false), "{results:?}");
        let counts = site.counts();
        assert!((0..8).all(|n| counts.executions_of(&format!("new {round} {n}")) == 1), "{counts:?}");
        assert!((0..8).all(|n| counts.executions_of(&format!("old {round} {n}")) == 1), "{counts:?}");
        assert_eq!((counts.sessions_opened, counts.messages_of("ping")), (round + 1, round), "{counts:?}");
        site.clear();
    }
}

#[test]
fn scenario_l_calls_succeed_at_once_with_new_credential() {
    let site = Site::start(json_answers());
    let proxy = RecordingProxy::before(site.address());
    let folder = tempfile::tempdir().unwrap();
    let (file, gate) = (folder.path().join("config.json"), folder.path().join("gate"));
    let write = |token: &str| {
        let entry = json!({ "url": proxy.url(), "headers": { "Authorization": format!("Bearer {token}") } });
        let beside = file.with_extension("new");
        fs::write(&beside, json!({ "mcpServers": { "notes": entry } }).to_string()).unwrap();
        fs::rename(beside, &file).unwrap();
    };
    write("old-token");
    let mut command = Command::new(MENDLINE);
    command.args(["run", "--startup", "wait", "--config"]).arg(&file).arg("notes").stdin(Stdio::piped());
    let mut client = Client::start(command.env("NO_PROXY", "*").current_dir(folder.path()));
    client.read_log();
    assert_eq!(client.initialize(), "mendline-faults");
    for number in 0..30 {
        let key = format!("k{number}");
        client.call(&key, "create_note", &json!({ "key": key, "until": gate }));
    }
    site.until("they run", |counts| counts.executions.len() == 30);
    // The credential expires.
    site.add_fault(Rule::new("a73_token_expired_401").verb("POST"));
    let refused = client.result("refused", "create_note", &json!({ "key": "refused" }));
    assert_eq!(failure(&refused)["cause"], "needs_login", "{refused}");
    assert_eq!(failure(&refused)["outcome"], "refused", "{refused}");
    eventually("a probe is refused too", SOON, || client.log().contains("needs a login"));
    let rejected = client.result("rejected", "create_note", &json!({ "key": "rejected" }));
    assert_eq!(failure(&rejected)["cause"], "needs_login", "{rejected}");
    // Another credential is accepted. The 30 calls are still in flight.
    site.clear();
    write("new-token");
    eventually("the file is read", SOON, || client.log().contains("reconfigured"));
    let result = client.result("next", "create_note", &json!({ "key": "next" }));
    assert_eq!(result["content"][0]["text"], "wrote next", "{result}");
    assert!(proxy.recorded().contains("Bearer new-token"), "the new credential was used");
    fs::write(&gate, "").unwrap();
    for (key, result) in answers(&mut client, 30, SOON) {
        assert_eq!(result["content"][0]["text"], format!("wrote {key}"), "{result}");
        assert_eq!(site.executions(&key), 1);
    }
    assert_eq!((site.executions("refused"), site.executions("rejected"), site.executions("next")), (0, 0, 1));
}

#[test]
fn scenario_m_reset_connection_disturbs_none_of_256_calls() {
    let site = Site::start(json_answers());
    let mut client = site.client(&[]);
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    for number in 0..255 {
        let key = format!("k{number}");
        client.call(&key, "create_note", &json!({ "key": key, "until": gate }));
    }
    site.until("they run", |counts| counts.executions.len() == 255);
    site.add_fault(Rule::new("t13_reset_before_headers").tool("lookup").nth(1));
    let result = client.result("reset", "lookup", &json!({ "key": "reset" }));
    assert_eq!(result["content"][0]["text"], "reset is 42", "{result}");
    assert_eq!(site.counts().struck_by("t13_reset_before_headers"), 1);
    fs::write(&gate, "").unwrap();
    for (key, result) in answers(&mut client, 255, SOON) {
        assert_eq!(result["content"][0]["text"], format!("wrote {key}"), "{result}");
    }
    let counts = site.counts();
    assert!((0..255).all(|number| counts.executions_of(&format!("k{number}")) == 1), "{counts:?}");
    assert_eq!((counts.messages_of("tools/call"), counts.closed_mid_call, counts.sessions_opened), (257, 0, 1));
    let log = client.whole_log();
    assert!(!log.contains("away: calls wait"), "{log}");
}

#[test]
fn scenario_n_busy_server_that_answers_no_ping_is_kept() {
    let site = Site::start(json_answers());
    let mut client = site.client(&["--keep-alive", "1s", "--keep-alive-timeout", "1s"]);
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    client.call("busy", "create_note", &json!({ "key": "busy", "until": gate }));
    site.until("it runs", |counts| counts.executions_of("busy") == 1);
    site.add_fault(Rule::new("m64_late_response").method("ping").value(600_000));
    // A read is reset meanwhile, so that a probe asks for a verdict and gets no answer.
    site.add_fault(Rule::new("t13_reset_before_headers").tool("lookup").nth(1));
    let begin = Instant::now();
    let result = client.result("read", "lookup", &json!({ "key": "read" }));
    assert_eq!(result["content"][0]["text"], "read is 42", "{result}");
    // Idle, the server would have missed two pings several times.
    eventually("time passes", SOON, || begin.elapsed() >= Duration::from_secs(10));
    fs::write(&gate, "").unwrap();
    assert_eq!(client.answer("busy")["result"]["content"][0]["text"], "wrote busy");
    site.clear();
    let counts = site.counts();
    assert_eq!((counts.executions_of("busy"), counts.sessions_opened, counts.messages_of("initialize")), (1, 1, 1));
    assert!(counts.struck_by("m64_late_response") <= 1, "only the probe: {counts:?}");
    let log = client.whole_log();
    assert!(!log.contains("away: calls wait") && !log.contains("Up → Waiting"), "{log}");
}
