//! Recovery as real clients see it, with Mendline between them and a failing server.
//!
//! The clients are those of the official SDKs. The servers are a published one, a test server on an official SDK, and
//! the fault server. The test kills and restarts servers while the client calls. The server counts what really ran.
//! `cargo xtask peers` installs the peers and runs these tests.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test prints its figures")]

mod fault_runtime;
mod programs;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fault_runtime::runtime;
use mendline_faults::{Answers, Rule, Seen, Settings};
use mendline_peers::caller::Caller;
use mendline_peers::faulty_server::FaultyServer;
use mendline_peers::live_client::{LiveClient, pause};
use mendline_peers::processes::{children_of, eventually, is_gone, with_command_line};
use mendline_peers::stage::Client::{Python1, Python2, Rust, TypeScript1, TypeScript2};
use mendline_peers::stage::Era::{Legacy, Modern};
use mendline_peers::stage::Server::{Everything, Fixture};
use mendline_peers::stage::{Client, Era, Server, Stage, Transport, installed};
use mendline_peers::transcript::Transcript;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

/// The deadline for anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn stage(client: Client, era: Era, server: Server) -> Stage {
    Stage { client, server, era, transport: Transport::Stdio, programs: programs::built() }
}

/// Returns a `mendline run` command with these arguments.
fn run(stage: &Stage, arguments: &[&str]) -> Vec<OsString> {
    let mut command =
        vec![stage.programs.mendline.clone().into(), "run".into(), "--no-log-files".into(), "--no-catalogue".into()];
    command.extend(arguments.iter().map(OsString::from));
    command
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "do": "call", "tool": tool, "arguments": arguments })
}

/// Returns the results of the calls of a tool, in order. A failed call has its error there.
fn results(report: &Value, tool: &str) -> Vec<Value> {
    let steps = report["steps"].as_array().unwrap().iter();
    let gave = steps.filter(|step| step[0] == "call" && step[1] == tool).map(|step| step[2].clone());
    // Most clients add the progress.
    gave.map(|gave| if gave.is_array() { gave[0].clone() } else { gave }).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Returns the pid of the server behind a tap with this log.
fn server_behind(stage: &Stage, log: &Path) -> i32 {
    let mut found = Vec::new();
    let runs = eventually(SOON, || {
        let taps = with_command_line(&[&stage.programs.tap, log]);
        found = taps.into_iter().flat_map(children_of).filter(|pid| !is_gone(*pid)).collect();
        found.len() == 1
    });
    assert!(runs, "one server behind {}: {found:?}", log.display());
    found[0]
}

// ---- seed 000: a stream that is primed and closed for every request ----

/// Returns how often each stream was resumed, by name: an event id is the name and a number.
fn resumptions(seen: &[Seen]) -> Vec<(String, usize)> {
    let mut streams: Vec<(String, usize)> = Vec::new();
    for id in seen.iter().filter_map(|seen| seen.last_event_id.as_deref()) {
        let name = id.trim_end_matches(|c: char| c.is_ascii_digit());
        match streams.iter_mut().find(|(known, _)| known == name) {
            Some((_, times)) => *times += 1,
            None => streams.push((name.to_owned(), 1)),
        }
    }
    streams
}

/// The server of the report: it answers a call and every GET with an event that has an id and no data, and ends the
/// stream. One tool works, which shows that the connection is usable.
fn always_closed_stream(client: Client) {
    let stage = stage(client, Legacy, Fixture);
    let settings = Settings { era: mendline_faults::Era::Legacy, answers: Answers::Events, ..Settings::default() };
    let site = runtime().block_on(mendline_faults::Server::start(settings)).unwrap();
    // The SDKs wait one second between two attempts without a `retry` field, as in the report.
    let fault = || Rule::new("s52_prime_then_close_for_ever").value(1000);
    site.add(fault().tool("create_note")).unwrap();
    site.add(fault().verb("GET")).unwrap();
    let steps = [
        json!({ "do": "list", "what": "tools" }),
        pause("before"),
        call("create_note", &json!({ "key": "k" })),
        pause("answered"),
        // Longer than three times the wait between two attempts.
        call("lookup", &json!({ "key": "l", "delayMs": 3500, "answer": "json" })),
        pause("later"),
        call("lookup", &json!({ "key": "m", "answer": "json" })),
    ];
    let folder = stage.folder("s52").unwrap();
    let mut live = LiveClient::start(&stage, folder, &steps, &run(&stage, &[&site.url()]), &[]).unwrap();
    live.wait_for_pause("before").unwrap();
    let begun = Instant::now();
    live.resume_from("before").unwrap();
    live.wait_for_pause("answered").unwrap();
    let took = begun.elapsed();
    let calls_stream = |seen: &[Seen]| {
        // The stream of the call was resumed most often; the other is the GET stream.
        resumptions(seen).into_iter().max_by_key(|(_, times)| *times).unwrap()
    };
    let at_the_answer = site.oracle().seen();
    let (name, times) = calls_stream(&at_the_answer);
    let gets = site.oracle().counts().gets;
    live.resume_from("answered").unwrap();
    live.wait_for_pause("later").unwrap();
    let later = resumptions(&site.oracle().seen()).into_iter().find(|(stream, _)| *stream == name).unwrap();
    live.resume_from("later").unwrap();
    let report = live.report().unwrap();

    println!("{client:?}: answered after {took:?}, {times} resumptions, {gets} GETs in all");
    let failed = &results(&report, "create_note")[0];
    assert_eq!(failed["isError"], true, "{failed}");
    assert!(text(failed).contains("may or may not have run"), "the text says what is unknown: {failed}");
    assert_eq!(failed["_meta"]["dev.mendline/failure"]["outcome"], "unknown", "{failed}");
    assert!(took < Duration::from_secs(40), "in bounded time: {took:?}");
    assert_eq!(times, 10, "resumed ten times");
    assert_eq!(later, (name, 10), "and not once more after the answer");
    assert!(gets <= 20, "the GET stream is not requested in a loop: {gets}");
    let looked_up: Vec<String> = results(&report, "lookup").iter().map(|result| text(result).to_owned()).collect();
    assert_eq!(looked_up, ["l is 42", "m is 42"]);
    assert_eq!(site.oracle().counts().executions_of("k"), 1);
}

#[test]
fn s52_python_1_gets_error_instead_of_hanging() {
    always_closed_stream(Python1);
}

#[test]
fn s52_python_2_gets_error_instead_of_hanging() {
    always_closed_stream(Python2);
}

#[test]
fn s52_typescript_1_gets_error_instead_of_hanging() {
    always_closed_stream(TypeScript1);
}

#[test]
fn s52_typescript_2_gets_error_instead_of_hanging() {
    always_closed_stream(TypeScript2);
}

#[test]
fn s52_rmcp_gets_error_instead_of_hanging() {
    always_closed_stream(Rust);
}

// ---- seed 001: a bridge whose server dies ----

/// Returns the command of the report with the URL of the test: `npx -y mcp-remote@latest URL`.
fn entry(stage: &Stage, url: &str) -> Vec<OsString> {
    run(stage, &["--", "npx", "-y", "mcp-remote@latest", url])
}

/// Returns a PATH on which `npx` is the bridge that `bench/peers` pins, so that the test does not download the latest
/// one. The bridge keeps a file for each server in the home directory, so the test has its own.
fn with_a_pinned_npx(folder: &Path) -> Vec<(&'static str, OsString)> {
    let bridge = installed("bench/node_modules/mcp-remote/dist/proxy.js").unwrap();
    let (bin, home) = (folder.join("bin"), folder.join("home"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&home).unwrap();
    let shim = bin.join("npx");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2\" = '-y mcp-remote@latest' ] || exit 64\nshift 2\nexec node '{}' \"$@\"\n",
        bridge.display()
    );
    fs::write(&shim, script).unwrap();
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = OsString::from(&bin);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    vec![("PATH", path), ("HOME", home.into())]
}

fn remote(stage: &Stage, folder: &Path) -> FaultyServer {
    FaultyServer::start(&stage.programs.faults, &["era=legacy"], &folder.join("ledger")).unwrap()
}

/// The server dies and stays away. The bridge lives and answers that it has lost its connection. After three such
/// answers to a read it is replaced, and the read waits until the server is back. The client only calls.
fn bridge_with_dead_server(client: Client, path: &str) {
    let stage = stage(client, Legacy, Fixture);
    let folder = stage.folder(&format!("mcp-remote{}", path.replace('/', "-"))).unwrap();
    let mut remote = remote(&stage, &folder);
    let steps = [
        json!({ "do": "list", "what": "tools" }),
        call("create_note", &json!({ "key": "first" })),
        pause("up"),
        call("lookup", &json!({ "key": "a" })),
        call("create_note", &json!({ "key": "next" })),
        call("lookup", &json!({ "key": "d" })),
    ];
    let environment = with_a_pinned_npx(&folder);
    let command = entry(&stage, &remote.url(path));
    let mut live = LiveClient::start(&stage, folder.clone(), &steps, &command, &environment).unwrap();
    live.wait_for_pause("up").unwrap();
    remote.kill();
    live.resume_from("up").unwrap();
    let replaced = eventually(SOON, || live.output().contains("its own connection is gone"));
    assert!(replaced, "{}", live.output());
    remote.restart().unwrap();
    let report = live.report().unwrap();
    assert_eq!(text(&results(&report, "create_note")[1]), "wrote next");
    let reads = results(&report, "lookup");
    assert_eq!((text(&reads[0]), text(&reads[1])), ("a is 42", "d is 42"), "the first has waited");
    let ran = remote.executions();
    assert_eq!((ran["first"], ran["next"], ran["d"]), (1, 1, 1), "{ran:?}");
}

#[test]
fn reported_bridge_entry_survives_restart_with_python_2_over_sse() {
    bridge_with_dead_server(Python2, "/sse");
}

#[test]
fn reported_bridge_entry_survives_restart_with_typescript_1_over_http() {
    bridge_with_dead_server(TypeScript1, "/mcp");
}

/// Calls in flight when the server dies, over a bridge that answers some of them late and some not at all. Each is
/// answered once, none runs twice, and later calls work.
fn calls_in_flight_over_a_bridge(path: &str) {
    let stage = stage(Rust, Legacy, Fixture);
    let folder = stage.folder(&format!("mcp-remote-in-flight{}", path.replace('/', "-"))).unwrap();
    let mut remote = remote(&stage, &folder);
    let environment = with_a_pinned_npx(&folder);
    let mut caller = Caller::start(&entry(&stage, &remote.url(path)), &environment, &folder.join("log")).unwrap();
    caller.initialize(Duration::from_secs(60)).unwrap();
    caller.call("write", "create_note", &json!({ "key": "write", "delayMs": 5000 })).unwrap();
    caller.call("read", "lookup", &json!({ "key": "read", "delayMs": 5000 })).unwrap();
    assert!(eventually(SOON, || remote.executions().len() == 2), "both run: {:?}", remote.executions());
    remote.kill();
    for id in ["a", "b", "c"] {
        caller.call(id, "create_note", &json!({ "key": id })).unwrap();
    }
    let mut answers = BTreeMap::new();
    while answers.len() < 5 {
        let (_, message) = caller.next(Duration::from_secs(60)).unwrap();
        let Some(id) = message["id"].as_str().map(ToOwned::to_owned) else { continue };
        assert!(answers.insert(id.clone(), message).is_none(), "{id} was answered twice");
        if answers.len() == 3 {
            remote.restart().unwrap();
        }
    }
    let write = &answers["write"];
    let unknown = write["result"]["_meta"]["dev.mendline/failure"]["outcome"] == "unknown";
    assert!(unknown || write["error"]["code"] == -32001, "an error of Mendline or of the bridge: {write}");
    assert_eq!(answers["read"]["result"]["content"][0]["text"], "read is 42", "{}", answers["read"]);
    caller.call("later", "create_note", &json!({ "key": "later" })).unwrap();
    let later = caller.answer("later", Duration::from_secs(60)).unwrap();
    assert_eq!(later["result"]["content"][0]["text"], "wrote later", "{later}");
    let ran = remote.executions();
    assert!(ran.iter().all(|(key, times)| *times == 1 || key == "read"), "{ran:?}");
}

#[test]
fn reported_bridge_answers_calls_in_flight_once_over_sse() {
    calls_in_flight_over_a_bridge("/sse");
}

#[test]
fn reported_bridge_answers_calls_in_flight_once_over_http() {
    calls_in_flight_over_a_bridge("/mcp");
}

// ---- restored session state ----

/// The server is killed. The next one gets the log level and the subscription of the client, as the tap shows, and the
/// client is notified that its resource may have changed.
fn state_is_restored(client: Client, server: Server) {
    let stage = stage(client, Legacy, server);
    let folder = stage.folder("state").unwrap();
    let log = folder.join("server-side.log");
    let (uri, echo) = match server {
        Everything => ("demo://resource/dynamic/text/1", json!({ "message": "there?" })),
        Fixture => ("note://zwei", json!({ "text": "there?" })),
        Server::TypeScript => unreachable!("it has no sessions whose state could be restored"),
    };
    let steps = [
        json!({ "do": "list", "what": "tools" }),
        json!({ "do": "level", "level": "warning" }),
        json!({ "do": "subscribe", "uri": uri }),
        pause("kill"),
        json!({ "do": "await", "method": "notifications/resources/updated", "count": 1 }),
        call("echo", &echo),
    ];
    let mut command = run(&stage, &["--"]);
    command.extend(stage.tapped(&log, stage.server_command(Transport::Stdio).unwrap()));
    let mut live = LiveClient::start(&stage, folder, &steps, &command, &[]).unwrap();
    live.wait_for_pause("kill").unwrap();
    kill(server_behind(&stage, &log));
    live.resume_from("kill").unwrap();
    let report = live.report().unwrap();
    assert!(text(&results(&report, "echo")[0]).contains("there?"), "{report}");
    assert_eq!(report["received"]["notifications/resources/updated"][0]["uri"], uri, "{report}");

    // The tap of the second process started a new log.
    let second = Transcript::read(&log).unwrap();
    let messages: Vec<Value> = second.up.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sent = |method: &str| messages.iter().filter(|message| message["method"] == method).collect::<Vec<_>>();
    assert_eq!((sent("initialize").len(), sent("notifications/initialized").len()), (1, 1), "{messages:?}");
    assert_eq!(sent("logging/setLevel")[0]["params"]["level"], "warning", "{messages:?}");
    assert_eq!(sent("resources/subscribe")[0]["params"]["uri"], uri, "{messages:?}");
    if server == Fixture {
        // `everything` sends it at every start.
        assert_eq!(
            report["received"].get("notifications/tools/list_changed"),
            None,
            "the tools are the same: {report}"
        );
    }
}

#[test]
fn typescript_1_state_is_restored_at_restarted_everything() {
    state_is_restored(TypeScript1, Everything);
}

#[test]
fn typescript_2_state_is_restored_at_restarted_everything() {
    state_is_restored(TypeScript2, Everything);
}

#[test]
fn python_1_state_is_restored_at_restarted_fixture() {
    state_is_restored(Python1, Fixture);
}

#[test]
fn python_2_state_is_restored_at_restarted_fixture() {
    state_is_restored(Python2, Fixture);
}

#[test]
fn rmcp_state_is_restored_at_restarted_fixture() {
    state_is_restored(Rust, Fixture);
}

/// In the modern era a subscription is a stream. It is reopened at the next server.
fn subscription_continues(client: Client) {
    let stage = stage(client, Modern, Fixture);
    let folder = stage.folder("listening").unwrap();
    let log = folder.join("server-side.log");
    let steps =
        [json!({ "do": "hold", "uri": "note://zwei", "pause": "kill" }), call("echo", &json!({ "text": "there?" }))];
    let mut command = run(&stage, &["--"]);
    command.extend(stage.tapped(&log, stage.server_command(Transport::Stdio).unwrap()));
    let mut live = LiveClient::start(&stage, folder, &steps, &command, &[]).unwrap();
    live.wait_for_pause("kill").unwrap();
    kill(server_behind(&stage, &log));
    live.resume_from("kill").unwrap();
    let report = live.report().unwrap();
    assert!(report["steps"][0][2].to_string().contains("note://zwei"), "{report}");
    let second = Transcript::read(&log).unwrap();
    let listens = second.up.iter().filter(|line| line.contains("subscriptions/listen")).count();
    assert_eq!(listens, 1, "{:?}", second.up);
}

#[test]
fn python_2_subscription_continues_at_restarted_server() {
    subscription_continues(Python2);
}

#[test]
fn typescript_2_subscription_continues_at_restarted_server() {
    subscription_continues(TypeScript2);
}

/// The next process of the server is another server with other tools.
fn changed_tools_after_restart(client: Client) {
    const ONCE: &str = r#"if mkdir "$0" 2>/dev/null; then exec "$@"; else exec "$MENDLINE" demo-server; fi"#;
    let stage = stage(client, Legacy, Fixture);
    let folder = stage.folder("m70").unwrap();
    let log = folder.join("server-side.log");
    // `env`, because the SDKs pass on few variables.
    let mut mendline = OsString::from("MENDLINE=");
    mendline.push(&stage.programs.mendline);
    let mut server: Vec<OsString> = vec!["env".into(), mendline, "sh".into(), "-c".into(), ONCE.into()];
    server.push(folder.join("has-lived").into());
    server.extend(stage.server_command(Transport::Stdio).unwrap());
    let steps = [
        json!({ "do": "list", "what": "tools" }),
        pause("kill"),
        json!({ "do": "await", "method": "notifications/tools/list_changed", "count": 1 }),
        json!({ "do": "list", "what": "tools" }),
        call("lookup", &json!({ "key": "k" })),
    ];
    let mut command = run(&stage, &["--"]);
    command.extend(stage.tapped(&log, server));
    let mut live = LiveClient::start(&stage, folder, &steps, &command, &[]).unwrap();
    live.wait_for_pause("kill").unwrap();
    kill(server_behind(&stage, &log));
    live.resume_from("kill").unwrap();
    let report = live.report().unwrap();
    assert_eq!(report["received"]["notifications/tools/list_changed"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(text(&results(&report, "lookup")[0]), "k is 42");
}

#[test]
fn m70_python_1_is_notified_of_changed_tools() {
    changed_tools_after_restart(Python1);
}

#[test]
fn m70_python_2_is_notified_of_changed_tools() {
    changed_tools_after_restart(Python2);
}

#[test]
fn m70_typescript_1_is_notified_of_changed_tools() {
    changed_tools_after_restart(TypeScript1);
}

/// Starts a client of the server `growing.mjs`, whose SDK reports every changed tool by itself.
fn growing(client: Client, name: &str, steps: &[Value]) -> (Stage, LiveClient, std::path::PathBuf) {
    let stage = stage(client, Legacy, Fixture);
    let folder = stage.folder(name).unwrap();
    let log = folder.join("server-side.log");
    let server = vec!["node".into(), installed("node/growing.mjs").unwrap().into(), folder.join("restarted").into()];
    // `env`, because the SDKs pass on few variables.
    let mut state = OsString::from("XDG_STATE_HOME=");
    state.push(folder.join("state"));
    let mut command: Vec<OsString> = vec!["env".into(), state, stage.programs.mendline.clone().into()];
    command.extend(["run", "--no-log-files", "--"].map(OsString::from));
    command.extend(stage.tapped(&log, server));
    let live = LiveClient::start(&stage, folder, steps, &command, &[]).unwrap();
    (stage, live, log)
}

/// Waits until the server has answered so many lists.
fn wait_for_lists(log: &Path, count: usize) {
    let answered = || fs::read_to_string(log).unwrap_or_default().matches(r#""tools":[{"name":"#).count();
    assert!(eventually(SOON, || answered() >= count), "{} of {count} lists", answered());
}

fn list_changes(report: &Value) -> usize {
    report["received"]["notifications/tools/list_changed"].as_array().map_or(0, Vec::len)
}

/// The SDK of the server sends twenty notifications for twenty tools, and two for a tool that is the same afterwards.
fn changes_are_announced_once(client: Client) {
    let list = || json!({ "do": "list", "what": "tools" });
    let steps = [
        list(),
        call("grow", &json!({})),
        json!({ "do": "await", "method": "notifications/tools/list_changed", "count": 1 }),
        list(),
        call("blink", &json!({})),
        pause("compared"),
        call("plain", &json!({})),
    ];
    let (_stage, mut live, log) = growing(client, "lists-once", &steps);
    live.wait_for_pause("compared").unwrap();
    // Two for the client, and one after each of the two changes.
    wait_for_lists(&log, 4);
    live.resume_from("compared").unwrap();
    let report = live.report().unwrap();
    assert_eq!(text(&results(&report, "plain")[0]), "plain");
    assert_eq!(list_changes(&report), 1, "{report}");
}

#[test]
fn lists_changed_tools_are_announced_once_to_python_1() {
    changes_are_announced_once(Python1);
}

#[test]
fn lists_changed_tools_are_announced_once_to_typescript_1() {
    changes_are_announced_once(TypeScript1);
}

/// The next process of the server registers its tools one after the other.
#[test]
fn lists_stay_equal_while_restarted_server_registers_its_tools() {
    let list = || json!({ "do": "list", "what": "tools" });
    let steps = [list(), pause("kill"), list(), pause("registered"), call("plain", &json!({})), list()];
    let (stage, mut live, log) = growing(Python1, "lists-restart", &steps);
    live.wait_for_pause("kill").unwrap();
    wait_for_lists(&log, 1);
    let killed = server_behind(&stage, &log);
    kill(killed);
    // The loss is known: the next list is not sent to the process that has ended.
    assert!(eventually(SOON, || server_behind(&stage, &log) != killed));
    live.resume_from("kill").unwrap();
    live.wait_for_pause("registered").unwrap();
    // The log is that of the new process: at first its list is not complete.
    wait_for_lists(&log, 2);
    let is_complete = || fs::read_to_string(&log).unwrap_or_default().contains(r#""name":"plain""#);
    assert!(eventually(SOON, is_complete), "{}", log.display());
    live.resume_from("registered").unwrap();
    let report = live.report().unwrap();
    let steps = report["steps"].as_array().unwrap().iter();
    let lists: Vec<&Value> = steps.filter(|step| step[0] == "list").collect();
    assert_eq!(lists.len(), 3);
    assert!(lists.iter().all(|list| *list == lists[0]), "{report}");
    assert_eq!(list_changes(&report), 0, "{report}");
}

// ---- exit of the client ----

#[test]
fn c87_client_killed_during_call_leaves_no_process() {
    let stage = stage(Python2, Legacy, Fixture);
    let folder = stage.folder("c87").unwrap();
    let log = folder.join("server-side.log");
    let steps = [json!({ "do": "list", "what": "tools" }), pause("call"), call("slow", &json!({}))];
    let mut command = run(&stage, &["--"]);
    command.extend(stage.tapped(&log, stage.server_command(Transport::Stdio).unwrap()));
    let mut live = LiveClient::start(&stage, folder, &steps, &command, &[]).unwrap();
    live.wait_for_pause("call").unwrap();
    let (client, server) = (i32::try_from(live.id()).unwrap(), server_behind(&stage, &log));
    let mendline = children_of(client);
    let guard_and_tap: Vec<i32> = mendline.iter().copied().flat_map(children_of).collect();
    assert!(mendline.len() == 1 && guard_and_tap.len() == 2, "{mendline:?} {guard_and_tap:?}");
    live.resume_from("call").unwrap();
    let is_called = || fs::read_to_string(&log).unwrap().contains("tools/call");
    assert!(eventually(SOON, is_called), "the call is in flight");
    live.kill();
    let all: Vec<i32> = [server].into_iter().chain(mendline).chain(guard_and_tap).collect();
    // The call of a killed client is not awaited.
    let ended = eventually(SOON, || all.iter().all(|pid| is_gone(*pid)));
    let left: Vec<&i32> = all.iter().filter(|pid| !is_gone(**pid)).collect();
    assert!(ended, "left behind: {left:?}");
}
