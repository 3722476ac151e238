//! Official clients at `mendline serve`: as at the server itself, and with kills of the server and of the gateway.
//!
//! `cargo xtask peers` installs the peers and runs these tests. The client on rmcp is left out: the workspace has it
//! without its HTTP client.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod programs;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mendline_peers::faulty_server::FaultyServer;
use mendline_peers::gateway::Gateway;
use mendline_peers::http_client::post;
use mendline_peers::live_client::{LiveClient, pause};
use mendline_peers::processes::eventually;
use mendline_peers::requests;
use mendline_peers::stage::Client::{Python1, Python2, TypeScript1, TypeScript2};
use mendline_peers::stage::Era::Legacy;
use mendline_peers::stage::Server::Fixture;
use mendline_peers::stage::{Client, Stage, Transport};
use mendline_peers::transport_differences;
use serde_json::{Value, json};

/// The deadline for anything that should happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn stage(client: Client) -> Stage {
    Stage { client, server: Fixture, era: Legacy, transport: Transport::Http, programs: programs::built() }
}

/// Unwraps a conversation.
fn held<T>(played: Result<T, String>) -> T {
    played.unwrap_or_else(|why| panic!("{why}"))
}

// ---- the same as at the server ----

/// Runs the script at the server and at the gateway; compares what the client's API returned and what the server got.
fn same_as_at_the_server(client: Client) {
    let stage = stage(client);
    let mut dialed = held(stage.run_dialed("dialed-for-gateway")).unwrap();
    let mut reached = held(stage.run_through_gateway("gateway"));
    for report in [&mut dialed.report, &mut reached.report] {
        transport_differences::remove_from_report(report, &stage);
    }
    assert_eq!(dialed.report, reached.report, "what the client's API returned");
    held(transport_differences::remove_from_requests(&mut dialed.requests, &mut reached.requests, &stage));
    let sent = held(requests::same(&dialed.requests, &reached.requests, stage.transport));
    assert!(sent > 25, "the server was sent {sent} messages");
}

#[test]
fn python_1_uses_gateway_as_the_server() {
    same_as_at_the_server(Python1);
}

#[test]
fn python_2_uses_gateway_as_the_server() {
    same_as_at_the_server(Python2);
}

#[test]
fn typescript_1_uses_gateway_as_the_server() {
    same_as_at_the_server(TypeScript1);
}

#[test]
fn typescript_2_uses_gateway_as_the_server() {
    same_as_at_the_server(TypeScript2);
}

// ---- kills ----

fn step(tool: &str, key: &str) -> Value {
    json!({ "do": "call", "tool": tool, "arguments": { "key": key } })
}

/// The server is killed and restarted, then the gateway. The client goes on with its session and sees no error.
fn client_survives_kills(client: Client) {
    let stage = stage(client);
    let folder = stage.folder("gateway-kills").unwrap();
    let mut server = held(FaultyServer::start(&stage.programs.faults, &[], &folder.join("ledger")));
    let mut gateway = held(Gateway::start(&stage.programs, &folder, &[server.url("/mcp").into()]));
    let steps = [
        json!({ "do": "list", "what": "tools" }),
        step("create_note", "first"),
        pause("server"),
        step("create_note", "second"),
        step("lookup", "a"),
        pause("gateway"),
        step("create_note", "third"),
        step("lookup", "b"),
        json!({ "do": "list", "what": "tools" }),
    ];
    let mut live = held(LiveClient::start(&stage, folder, &steps, &[gateway.url().into()], &[]));
    held(live.wait_for_pause("server"));
    server.kill();
    held(server.restart());
    held(live.resume_from("server"));
    held(live.wait_for_pause("gateway"));
    held(gateway.kill());
    held(gateway.restart());
    held(live.resume_from("gateway"));
    let report = held(live.report());
    for key in ["first", "second", "third"] {
        assert_eq!(server.executions().get(key), Some(&1), "{report}");
    }
    let said = report.to_string();
    assert!(said.contains("wrote third") && said.contains("b is 42"), "{said}\n{}", gateway.log());
}

#[test]
fn python_1_session_survives_killed_server_and_gateway() {
    client_survives_kills(Python1);
}

#[test]
fn python_2_session_survives_killed_server_and_gateway() {
    client_survives_kills(Python2);
}

#[test]
fn typescript_1_session_survives_killed_server_and_gateway() {
    client_survives_kills(TypeScript1);
}

#[test]
fn typescript_2_session_survives_killed_server_and_gateway() {
    client_survives_kills(TypeScript2);
}

/// What the clients of the kill test have seen.
#[derive(Default)]
struct Seen {
    /// Odd while the gateway is down.
    epoch: AtomicU64,
    is_over: AtomicBool,
    /// The calls that were answered in this epoch.
    answered: AtomicUsize,
}

/// One client: reads and writes in turn, until the test is over. Returns what must not happen.
fn calls(port: u16, session: &str, client: usize, seen: &Seen) -> Vec<String> {
    let mut wrong = Vec::new();
    for number in 0.. {
        if seen.is_over.load(Ordering::SeqCst) {
            break;
        }
        let (tool, key) = (if number % 2 == 0 { "lookup" } else { "create_note" }, format!("{client}-{number}"));
        let call = json!({
            "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": { "name": tool, "arguments": { "key": key } },
        });
        let before = seen.epoch.load(Ordering::SeqCst);
        let result = post(port, Some(session), &call);
        let listened = before.is_multiple_of(2) && seen.epoch.load(Ordering::SeqCst) == before;
        match result {
            Ok(response) if response.status == 200 && response.message["id"] == number => {
                let said = response.message["result"]["content"][0]["text"].as_str().unwrap_or_default();
                if listened && tool == "lookup" && said != format!("{key} is 42") {
                    wrong.push(format!("{key}: {}", response.message));
                }
                seen.answered.fetch_add(1, Ordering::SeqCst);
            }
            // A session is never lost, and a request is never only accepted.
            Ok(response) => wrong.push(format!("{key}: status {}, {}", response.status, response.message)),
            Err(why) if listened => wrong.push(format!("{key}: {why}")),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    wrong
}

/// Opens a session.
fn session(port: u16) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let session = held(post(port, None, &initialize)).session.unwrap();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(held(post(port, Some(&session), &initialized)).status, 202);
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    assert!(held(post(port, Some(&session), &list)).message["result"]["tools"].is_array());
    session
}

/// The gateway is killed again and again under clients. `MENDLINE_GATEWAY_KILLS` is the number of kills, and
/// `MENDLINE_GATEWAY_SECONDS` the time between them; `cargo xtask soak --gateway` sets both.
#[test]
fn x91_killed_gateway_loses_no_session_and_repeats_no_write() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("MENDLINE_GATEWAY_KILLS").unwrap_or(4);
    let interval = Duration::from_secs(number("MENDLINE_GATEWAY_SECONDS").unwrap_or(0));
    let clients = if interval.is_zero() { 8 } else { 50 };
    let stage = stage(TypeScript1);
    let folder = stage.folder("gateway-killed").unwrap();
    let server = held(FaultyServer::start(&stage.programs.faults, &[], &folder.join("ledger")));
    let mut gateway = held(Gateway::start(&stage.programs, &folder, &[server.url("/mcp").into()]));
    let port = gateway.port();
    let sessions: Vec<String> = (0..clients).map(|_| session(port)).collect();
    let seen = Seen::default();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let running: Vec<_> = sessions
            .iter()
            .enumerate()
            .map(|(client, session)| (client, session, &seen))
            .map(|(client, session, seen)| scope.spawn(move || calls(port, session, client, seen)))
            .collect();
        for _ in 0..kills {
            let begun = Instant::now();
            seen.answered.store(0, Ordering::SeqCst);
            // Every client has had some answers since the last start.
            let busy = || seen.answered.load(Ordering::SeqCst) >= 5 * clients && begun.elapsed() >= interval;
            assert!(eventually(SOON + interval, busy), "calls are answered:\n{}", gateway.log());
            seen.epoch.fetch_add(1, Ordering::SeqCst);
            held(gateway.kill());
            held(gateway.restart());
            seen.epoch.fetch_add(1, Ordering::SeqCst);
        }
        seen.answered.store(0, Ordering::SeqCst);
        let is_served = eventually(SOON, || seen.answered.load(Ordering::SeqCst) >= 2 * clients);
        seen.is_over.store(true, Ordering::SeqCst);
        assert!(is_served, "calls are answered after the last start:\n{}", gateway.log());
        running.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of them: {:#?}\n{}", wrong.len(), &wrong[..wrong.len().min(10)], gateway.log());
    let repeated: BTreeMap<_, _> = server.executions().into_iter().filter(|(_, times)| *times > 1).collect();
    let writes: Vec<_> = repeated.iter().filter(|(key, _)| is_write(key)).collect();
    assert!(writes.is_empty(), "writes that ran twice: {writes:?}");
}

/// Returns whether a key belongs to a write: its number is odd.
fn is_write(key: &str) -> bool {
    key.rsplit('-').next().and_then(|number| number.parse::<u64>().ok()).is_some_and(|number| number % 2 == 1)
}
