//! The same clients and servers, with Mendline between stdio and HTTP.
//!
//! Each test holds three conversations: the client with the server as its child, the client that dials the server
//! itself, and the client through `mendline run URL`. `cargo xtask peers` installs the peers and runs these tests.

mod programs;

use mendline_peers::access;
use mendline_peers::compare::compare;
use mendline_peers::differences::{DIFFERENCES, Eras, Messages, Side};
use mendline_peers::rename::Renames;
use mendline_peers::requests;
use mendline_peers::stage::Client::{Python1, Python2, Rust, TypeScript1, TypeScript2};
use mendline_peers::stage::Era::{Legacy, Modern, Probing};
use mendline_peers::stage::Server::{self, Everything, Fixture};
use mendline_peers::stage::Transport::{Http, Sse, Stateless};
use mendline_peers::stage::{Client, Era, Stage, Transport};
use mendline_peers::threads::sorted_by_thread;
use mendline_peers::transport_differences;

/// Unwraps a conversation.
fn held<T>(played: Result<T, String>) -> T {
    played.unwrap_or_else(|why| panic!("{why}"))
}

fn same_as_dialed(client: Client, era: Era, server: Server, transport: Transport) {
    let stage = Stage { client, server, era, transport, programs: programs::built() };
    let piped = held(stage.run_directly("piped"));
    let mut dialed = held(stage.run_dialed("dialed"));
    let mut reached = held(stage.run_remote("reached"));
    assert!(piped.client_side.up.len() > 25, "the script has more than {} lines", piped.client_side.up.len());

    let [direct, bridged] = [&piped.client_side, &reached.client_side]
        .map(|transcript| sorted_by_thread(&held(transport_differences::remove_from(transcript, &stage))));
    let renames =
        compare(&direct, &bridged, Some(Side::Client)).unwrap_or_else(|why| panic!("the client's pipe: {why}"));
    every_row_was_seen(&stage, &renames);

    if let Some(dialed) = &mut dialed {
        held(transport_differences::remove_from_requests(&mut dialed.requests, &mut reached.requests, &stage));
        let sent = requests::same(&dialed.requests, &reached.requests, transport)
            .unwrap_or_else(|why| panic!("the server: {why}"));
        assert!(sent > 25, "the server was sent {sent} messages");
    }

    if server != Everything {
        let mut written = reached.client_side.up.clone();
        if (client, era) == (TypeScript2, Modern) {
            // It performs the handshake with a separate process first. The tap of the second process started a new log.
            written.push(r#"{"id":0,"method":"server/discover"}"#.into());
        }
        held(access::sent_once(&reached.server_log, &written, transport));
    }

    let mut direct = dialed.map_or(piped.report, |dialed| dialed.report);
    for report in [&mut direct, &mut reached.report] {
        transport_differences::remove_from_report(report, &stage);
    }
    assert_eq!(direct, reached.report, "what the client's API returned");
}

/// Checks that the fixture used every row of the client's side that its transport supports.
fn every_row_was_seen(stage: &Stage, renames: &Renames) {
    let asked = stage.server == Fixture && stage.transport != Stateless && stage.era != Modern;
    for row in DIFFERENCES.iter().filter(|row| asked && row.side == Side::Client && row.eras != Eras::InModern) {
        // The oldest client reads nothing during a server request, so no request to it can be cancelled.
        let withdrawn = row.messages == Messages::Notification("notifications/cancelled");
        if !(stage.client == Python1 && withdrawn) {
            assert!(renames.has_seen(row), "the script never came to {row:?}");
        }
    }
}

#[test]
fn python_1_uses_fixture_over_streamable_http_as_over_stdio() {
    same_as_dialed(Python1, Legacy, Fixture, Http);
}

#[test]
fn python_1_uses_fixture_without_sessions_as_over_stdio() {
    same_as_dialed(Python1, Legacy, Fixture, Stateless);
}

#[test]
fn python_1_uses_fixture_over_sse_as_over_stdio() {
    same_as_dialed(Python1, Legacy, Fixture, Sse);
}

#[test]
fn python_1_uses_everything_over_streamable_http_as_over_stdio() {
    same_as_dialed(Python1, Legacy, Everything, Http);
}

#[test]
fn python_1_uses_everything_over_sse_as_over_stdio() {
    same_as_dialed(Python1, Legacy, Everything, Sse);
}

#[test]
fn python_2_uses_fixture_over_streamable_http_as_over_stdio() {
    same_as_dialed(Python2, Legacy, Fixture, Http);
}

#[test]
fn python_2_uses_fixture_without_sessions_as_over_stdio() {
    same_as_dialed(Python2, Legacy, Fixture, Stateless);
}

#[test]
fn python_2_uses_fixture_over_sse_as_over_stdio() {
    same_as_dialed(Python2, Legacy, Fixture, Sse);
}

#[test]
fn python_2_uses_everything_over_streamable_http_as_over_stdio() {
    same_as_dialed(Python2, Legacy, Everything, Http);
}

#[test]
fn python_2_uses_everything_over_sse_as_over_stdio() {
    same_as_dialed(Python2, Legacy, Everything, Sse);
}

#[test]
fn python_2_uses_modern_fixture_over_http_as_over_stdio() {
    same_as_dialed(Python2, Modern, Fixture, Http);
}

#[test]
fn typescript_1_uses_fixture_over_streamable_http_as_over_stdio() {
    same_as_dialed(TypeScript1, Legacy, Fixture, Http);
}

#[test]
fn typescript_1_uses_fixture_without_sessions_as_over_stdio() {
    same_as_dialed(TypeScript1, Legacy, Fixture, Stateless);
}

#[test]
fn typescript_1_uses_fixture_over_sse_as_over_stdio() {
    same_as_dialed(TypeScript1, Legacy, Fixture, Sse);
}

#[test]
fn typescript_1_uses_everything_over_streamable_http_as_over_stdio() {
    same_as_dialed(TypeScript1, Legacy, Everything, Http);
}

#[test]
fn typescript_1_uses_everything_over_sse_as_over_stdio() {
    same_as_dialed(TypeScript1, Legacy, Everything, Sse);
}

#[test]
fn typescript_2_uses_fixture_over_streamable_http_as_over_stdio() {
    same_as_dialed(TypeScript2, Legacy, Fixture, Http);
}

#[test]
fn typescript_2_uses_fixture_without_sessions_as_over_stdio() {
    same_as_dialed(TypeScript2, Legacy, Fixture, Stateless);
}

#[test]
fn typescript_2_uses_fixture_over_sse_as_over_stdio() {
    same_as_dialed(TypeScript2, Legacy, Fixture, Sse);
}

#[test]
fn typescript_2_uses_everything_over_streamable_http_as_over_stdio() {
    same_as_dialed(TypeScript2, Legacy, Everything, Http);
}

#[test]
fn typescript_2_uses_everything_over_sse_as_over_stdio() {
    same_as_dialed(TypeScript2, Legacy, Everything, Sse);
}

#[test]
fn typescript_2_uses_modern_fixture_over_http_as_over_stdio() {
    same_as_dialed(TypeScript2, Modern, Fixture, Http);
}

#[test]
fn python_2_uses_typescript_server_as_over_stdio() {
    same_as_dialed(Python2, Modern, Server::TypeScript, Http);
}

#[test]
fn typescript_2_uses_typescript_server_as_over_stdio() {
    same_as_dialed(TypeScript2, Modern, Server::TypeScript, Http);
}

#[test]
fn rmcp_uses_typescript_server_as_over_stdio() {
    same_as_dialed(Rust, Modern, Server::TypeScript, Http);
}

#[test]
fn rmcp_uses_fixture_over_streamable_http_as_over_stdio() {
    same_as_dialed(Rust, Legacy, Fixture, Http);
}

#[test]
fn rmcp_uses_fixture_without_sessions_as_over_stdio() {
    same_as_dialed(Rust, Legacy, Fixture, Stateless);
}

#[test]
fn rmcp_uses_fixture_over_sse_as_over_stdio() {
    same_as_dialed(Rust, Legacy, Fixture, Sse);
}

#[test]
fn rmcp_uses_everything_over_streamable_http_as_over_stdio() {
    same_as_dialed(Rust, Legacy, Everything, Http);
}

#[test]
fn rmcp_uses_everything_over_sse_as_over_stdio() {
    same_as_dialed(Rust, Legacy, Everything, Sse);
}

#[test]
fn rmcp_uses_modern_fixture_over_http_as_over_stdio() {
    same_as_dialed(Rust, Modern, Fixture, Http);
}

#[test]
fn python_2_falls_back_to_legacy_over_http() {
    same_as_dialed(Python2, Probing, Everything, Http);
}

#[test]
fn rmcp_falls_back_to_legacy_over_http() {
    same_as_dialed(Rust, Probing, Everything, Http);
}
