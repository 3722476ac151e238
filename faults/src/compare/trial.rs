//! One run: one bridge, one fault case, a few calls.
//!
//! Calls alternate between reads and writes and are made at fixed times, even if earlier ones are unanswered, so that a
//! call that hangs does not hide the fate of the next. Executions are read from the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::bridge::Bridge;
use super::client::{ANSWER_TIMEOUT, Client};
use crate::{Era, Rule, Server, Settings};

/// The time between two calls.
const CALL_INTERVAL: Duration = Duration::from_millis(200);

/// The call at which the fault happens. It is a read, so that the bridge may repeat it.
const FAULTED_CALL: u64 = 5;

/// The time for which a restarted server is down, and an overloaded one answers 429.
const OUTAGE: Duration = Duration::from_secs(1);

/// A fault that all bridges are compared under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultCase {
    StreamCut,
    StreamCutNoResume,
    SessionExpired,
    Restarted,
    Overloaded,
    Stalled,
}

impl FaultCase {
    pub(super) const ALL: [FaultCase; 6] = [
        FaultCase::StreamCut,
        FaultCase::StreamCutNoResume,
        FaultCase::SessionExpired,
        FaultCase::Restarted,
        FaultCase::Overloaded,
        FaultCase::Stalled,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            FaultCase::StreamCut => "stream cut, can be resumed",
            FaultCase::StreamCutNoResume => "stream cut, cannot be resumed",
            FaultCase::SessionExpired => "session expired (404)",
            FaultCase::Restarted => "server down for 1 s",
            FaultCase::Overloaded => "429 for 1 s, with `Retry-After`",
            FaultCase::Stalled => "one call never answered",
        }
    }

    /// The additional options of Mendline for this case.
    pub(super) fn mendline_options(self) -> &'static [&'static str] {
        match self {
            FaultCase::Stalled => &["--call-timeout", "3s"],
            _ => &[],
        }
    }
}

/// The outcomes of the calls of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallCounts {
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) lost: u64,
    pub(super) hung: u64,
    /// Writes that ran more than once.
    pub(super) ran_twice: u64,
    /// Writes that were answered and did not run.
    pub(super) not_run: u64,
}

/// The server, which may be restarting.
struct RestartableServer {
    running: Option<Server>,
    address: SocketAddr,
    restarting: Option<JoinHandle<std::io::Result<Server>>>,
    /// Executions on servers that have ended.
    ran: BTreeMap<String, u64>,
}

/// Returns the settings of a case. Most real servers keep no events and cannot resume a stream; this one can, except
/// where the case forbids it.
fn settings(case: FaultCase) -> Settings {
    let (ids, retry_ms) = if case == FaultCase::StreamCutNoResume { (false, None) } else { (true, Some(100)) };
    Settings { era: Era::Legacy, ids, prime: ids, retry_ms, ..Settings::default() }
}

/// Runs the calls and counts their outcomes.
pub(super) async fn run(bridge: &Bridge, case: FaultCase, calls: u64) -> std::io::Result<CallCounts> {
    let server = Server::start(settings(case)).await?;
    let (url, address) = (server.url(), server.address());
    let mut server = RestartableServer { running: Some(server), address, restarting: None, ran: BTreeMap::new() };
    let mut client = Client::start(bridge.command(&url, case)?)?;
    client.initialize().await?;
    let begin = Instant::now();
    for call in 1..=calls {
        let is_faulted = call == FAULTED_CALL;
        if is_faulted {
            server.inject(case)?;
        }
        let delay = if is_faulted && case == FaultCase::Stalled { 60_000 } else { 0 };
        let tool = if call % 2 == 1 { "lookup" } else { "create_note" };
        let arguments = json!({ "key": format!("k{call}"), "delayMs": delay });
        client.request(call, "tools/call", &json!({ "name": tool, "arguments": arguments }));
        let next = begin + CALL_INTERVAL * u32::try_from(call).unwrap_or(u32::MAX);
        client.collect_answers(next, usize::MAX).await;
    }
    client.collect_answers(Instant::now() + ANSWER_TIMEOUT, usize::try_from(calls).unwrap_or(usize::MAX)).await;
    if !server.was_injected(case) {
        return Err(std::io::Error::other("the fault was not injected"));
    }
    let ran = server.executions().await?;
    let (mut counts, has_ended) = (CallCounts::default(), client.has_ended());
    for call in 1..=calls {
        let answer = client.answers().get(&call);
        let is_error =
            answer.is_some_and(|answer| answer.get("error").is_some() || answer["result"]["isError"] == true);
        match answer {
            Some(_) if is_error => counts.failed += 1,
            Some(_) => counts.answered += 1,
            None if has_ended => counts.lost += 1,
            None => counts.hung += 1,
        }
        let times = ran.get(&format!("k{call}")).copied().unwrap_or(0);
        if call % 2 == 0 {
            counts.ran_twice += u64::from(times > 1);
            counts.not_run += u64::from(times == 0 && answer.is_some() && !is_error);
        }
    }
    Ok(counts)
}

impl RestartableServer {
    fn inject(&mut self, case: FaultCase) -> std::io::Result<()> {
        let Some(server) = &self.running else { return Ok(()) };
        match case {
            FaultCase::StreamCut | FaultCase::StreamCutNoResume => {
                server.add(Rule::new("t14_reset_mid_body").nth(1)).map_err(std::io::Error::other)
            }
            FaultCase::SessionExpired => {
                server.forget_sessions();
                Ok(())
            }
            FaultCase::Overloaded => {
                server.add(Rule::new("h30_429_retry_after").during(OUTAGE).value(1)).map_err(std::io::Error::other)
            }
            FaultCase::Restarted => {
                self.ran = server.oracle().counts().executions;
                // Dropping the server ends all its connections.
                self.running = None;
                let address = self.address;
                self.restarting = Some(tokio::spawn(async move {
                    sleep(OUTAGE).await;
                    Server::start_on(address, settings(case)).await
                }));
                Ok(())
            }
            FaultCase::Stalled => Ok(()),
        }
    }

    /// Returns whether the fault really happened: a run without it proves nothing.
    fn was_injected(&self, case: FaultCase) -> bool {
        let counts = self.running.as_ref().map(|server| server.oracle().counts()).unwrap_or_default();
        match case {
            FaultCase::StreamCut | FaultCase::StreamCutNoResume => counts.struck_by("t14_reset_mid_body") == 1,
            FaultCase::Overloaded => counts.struck_by("h30_429_retry_after") > 0,
            FaultCase::SessionExpired => counts.sessions_opened > counts.open_sessions,
            FaultCase::Restarted => self.restarting.is_some(),
            FaultCase::Stalled => counts.executions_of(&format!("k{FAULTED_CALL}")) > 0,
        }
    }

    /// Returns the number of executions of each call over all servers.
    async fn executions(mut self) -> std::io::Result<BTreeMap<String, u64>> {
        if let Some(restarting) = self.restarting.take() {
            self.running = Some(restarting.await.map_err(std::io::Error::other)??);
        }
        for (key, times) in self.running.iter().flat_map(|server| server.oracle().counts().executions) {
            *self.ran.entry(key).or_default() += times;
        }
        Ok(self.ran)
    }
}
