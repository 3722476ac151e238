//! Official clients with official servers, with and without Mendline between them.
//!
//! `cargo xtask peers` installs the peers, builds `mendline` and runs these tests.

mod programs;

use mendline_peers::compare::compare;
use mendline_peers::differences::{DIFFERENCES, Eras, Messages, Side};
use mendline_peers::rename::Renames;
use mendline_peers::stage::Client::{Python1, Python2, Rust, TypeScript1, TypeScript2};
use mendline_peers::stage::Era::{Legacy, Modern, Probing};
use mendline_peers::stage::Server::{self, Everything, Fixture};
use mendline_peers::stage::{Client, Era, Stage, StdioRun, Transport};

fn stage(client: Client, era: Era, server: Server) -> Stage {
    Stage { client, server, era, transport: Transport::Stdio, programs: programs::built() }
}

/// Unwraps a conversation.
fn held(played: Result<StdioRun, String>) -> StdioRun {
    played.unwrap_or_else(|why| panic!("{why}"))
}

/// Runs the script directly and through Mendline, and compares the two in three places.
fn same_through_mendline(client: Client, era: Era, server: Server) {
    let stage = stage(client, era, server);
    let direct = held(stage.run_directly("direct"));
    let bridged = held(stage.run_bridged("bridged"));
    assert!(direct.client_side.up.len() > 30, "the script has more than {} lines", direct.client_side.up.len());

    let renames = compare(&direct.client_side, &bridged.client_side, Some(Side::Client))
        .unwrap_or_else(|why| panic!("the client's pipe: {why}"));
    every_row_was_seen(&stage, Side::Client, &renames);

    let renames = compare(&direct.server_side, &bridged.server_side, Some(Side::Server))
        .unwrap_or_else(|why| panic!("the server's pipe: {why}"));
    every_row_was_seen(&stage, Side::Server, &renames);
    assert!(renames.len() > 30, "every request has a name of Mendline's, {} were seen", renames.len());

    assert_eq!(direct.report, bridged.report, "what the client's API returned");
}

/// Checks that the fixture used every row of the table.
fn every_row_was_seen(stage: &Stage, side: Side, renames: &Renames) {
    for row in DIFFERENCES.iter().filter(|row| row.side == side) {
        let eras = match row.eras {
            Eras::Always => true,
            Eras::InLegacy => stage.era != Modern,
            Eras::InModern => stage.era == Modern,
        };
        // The oldest client reads nothing during a server request, so no request to it can be cancelled.
        let withdrawn = side == Side::Client && row.messages == Messages::Notification("notifications/cancelled");
        if eras && stage.server == Fixture && !(stage.client == Python1 && withdrawn) {
            assert!(renames.has_seen(row), "the script never came to {row:?}");
        }
    }
}

/// The control: two direct runs must be equal. A failure means that a peer has an unknown nondeterministic value.
fn same_twice(client: Client, era: Era, server: Server) {
    let stage = stage(client, era, server);
    let first = held(stage.run_directly("first"));
    let second = held(stage.run_directly("second"));
    compare(&first.client_side, &second.client_side, None).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(first.report, second.report);
}

#[test]
fn two_direct_conversations_with_fixture_are_equal() {
    same_twice(Python2, Legacy, Fixture);
}

#[test]
fn two_direct_conversations_with_everything_are_equal() {
    same_twice(TypeScript1, Legacy, Everything);
}

#[test]
fn python_1_sees_fixture_as_without_mendline() {
    same_through_mendline(Python1, Legacy, Fixture);
}

#[test]
fn python_1_sees_everything_as_without_mendline() {
    same_through_mendline(Python1, Legacy, Everything);
}

#[test]
fn python_2_sees_fixture_as_without_mendline() {
    same_through_mendline(Python2, Legacy, Fixture);
}

#[test]
fn python_2_sees_everything_as_without_mendline() {
    same_through_mendline(Python2, Legacy, Everything);
}

#[test]
fn python_2_sees_modern_fixture_as_without_mendline() {
    same_through_mendline(Python2, Modern, Fixture);
}

#[test]
fn typescript_1_sees_fixture_as_without_mendline() {
    same_through_mendline(TypeScript1, Legacy, Fixture);
}

#[test]
fn typescript_1_sees_everything_as_without_mendline() {
    same_through_mendline(TypeScript1, Legacy, Everything);
}

#[test]
fn typescript_2_sees_fixture_as_without_mendline() {
    same_through_mendline(TypeScript2, Legacy, Fixture);
}

#[test]
fn typescript_2_sees_everything_as_without_mendline() {
    same_through_mendline(TypeScript2, Legacy, Everything);
}

#[test]
fn typescript_2_sees_modern_fixture_as_without_mendline() {
    same_through_mendline(TypeScript2, Modern, Fixture);
}

#[test]
fn python_2_sees_typescript_server_as_without_mendline() {
    same_through_mendline(Python2, Modern, Server::TypeScript);
}

#[test]
fn typescript_2_sees_typescript_server_as_without_mendline() {
    same_through_mendline(TypeScript2, Modern, Server::TypeScript);
}

#[test]
fn rmcp_sees_typescript_server_as_without_mendline() {
    same_through_mendline(Rust, Modern, Server::TypeScript);
}

#[test]
fn rmcp_sees_fixture_as_without_mendline() {
    same_through_mendline(Rust, Legacy, Fixture);
}

#[test]
fn rmcp_sees_everything_as_without_mendline() {
    same_through_mendline(Rust, Legacy, Everything);
}

#[test]
fn rmcp_sees_modern_fixture_as_without_mendline() {
    same_through_mendline(Rust, Modern, Fixture);
}

#[test]
fn python_2_falls_back_to_legacy_as_without_mendline() {
    same_through_mendline(Python2, Probing, Everything);
}

#[test]
fn rmcp_falls_back_to_legacy_as_without_mendline() {
    same_through_mendline(Rust, Probing, Everything);
}
