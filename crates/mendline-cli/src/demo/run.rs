//! One run of calls under one fault, for one side.
//!
//! A run is a number of calls, reads and writes alternating, with a fault in the middle. The effects of the server are
//! read from its ledger afterwards, not taken from its answers.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, Reply};
use super::counts::Counts;
use super::fault::{Fault, FaultAction};
use super::stop;
use super::testbed::{Side, Testbed, Workspace};

/// Pause between two calls, for the eye.
const PACE: Duration = Duration::from_millis(60);

/// Duration of a call whose server is killed meanwhile. A read is repeated, so the demo waits for it twice; a write
/// ends with its server, so even a slow machine has the time to kill it.
const EXPOSED_READ_MS: u64 = 400;
const EXPOSED_WRITE_MS: u64 = 5_000;

/// An event of a run, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Fault,
    Done(Reply),
}

/// Result of a run, and the answers to calls with an unknown outcome.
pub(super) struct Report {
    pub(super) counts: Counts,
    pub(super) unknown_answers: Vec<String>,
}

/// Runs the calls.
pub(super) fn run_calls(
    workspace: &Workspace,
    fault: Fault,
    side: Side,
    calls: u32,
    show: impl Fn(Mark),
) -> std::io::Result<Report> {
    let testbed = Testbed::open(workspace, fault, side)?;
    let mut client = Client::start(testbed.target(), fault.timeout())?;
    let (mut counts, mut reported, mut unknown_answers, mut action) = (Counts::default(), Vec::new(), Vec::new(), None);
    for call in 1..=calls {
        if stop::is_wanted() {
            break;
        }
        let (tool, key, mut kill) = (fault.tool(call), format!("k{call}"), None);
        let mut arguments = json!({ "key": key });
        if fault.begins_at(call) {
            show(Mark::Fault);
            match fault.action() {
                Some(FaultAction::KillBefore) => counts.hits += u32::from(testbed.kill_child()),
                Some(FaultAction::KillWhileItAnswers) => {
                    let exposed = if tool == "create_note" { EXPOSED_WRITE_MS } else { EXPOSED_READ_MS };
                    arguments["delayMs"] = exposed.into();
                    kill = Some(testbed.kill_child_once_it_ran(tool, &key));
                }
                Some(FaultAction::Restart) => action = Some(testbed.restart_http_server()),
                None => {}
            }
        }
        let begin = Instant::now();
        let reply = client.call(tool, &arguments);
        counts.note(reply, begin.elapsed());
        // A late kill must not hit the next call.
        counts.hits += kill.map_or(0, wait_for_fault);
        match reply {
            Reply::Answered if tool == "create_note" => reported.push(key),
            Reply::MayHaveRun => unknown_answers.push(client.last_text().to_owned()),
            _ => {}
        }
        show(Mark::Done(reply));
        stop::sleep(PACE);
    }
    client.finish();
    counts.hits += action.map_or(0, wait_for_fault);
    counts.audit(&reported, &testbed.ledger());
    Ok(Report { counts, unknown_answers })
}

/// Waits for an injected fault, and returns the number of servers that it hit.
fn wait_for_fault(action: JoinHandle<bool>) -> u32 {
    u32::from(action.join().unwrap_or(false))
}
