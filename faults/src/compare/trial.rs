//! One bridge, one trouble, a few calls.
//!
//! Calls are made by the clock, reads and writes in turn, whether or not earlier ones were answered: a call that hangs must
//! not hide what becomes of the next. What ran is asked of the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::bridge::Bridge;
use super::client::{Client, PATIENCE};
use crate::{Era, Rule, Server, Settings};

/// The time between two calls.
const PACE: Duration = Duration::from_millis(200);

/// The call at which it happens; a read, so that nothing but the bridge decides what becomes of it.
const STRUCK: u64 = 5;

/// How long a restarted server is away, and a busy one busy.
const AWAY: Duration = Duration::from_secs(1);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    StreamCut,
    StreamCutForGood,
    SessionForgotten,
    Restarted,
    Busy,
    Stalled,
}

impl Trouble {
    pub(super) const ALL: [Trouble; 6] = [
        Trouble::StreamCut,
        Trouble::StreamCutForGood,
        Trouble::SessionForgotten,
        Trouble::Restarted,
        Trouble::Busy,
        Trouble::Stalled,
    ];

    pub(super) fn words(self) -> &'static str {
        match self {
            Trouble::StreamCut => "stream cut, can be resumed",
            Trouble::StreamCutForGood => "stream cut, cannot be resumed",
            Trouble::SessionForgotten => "session forgotten (404)",
            Trouble::Restarted => "server away for 1 s",
            Trouble::Busy => "429 for 1 s, with `Retry-After`",
            Trouble::Stalled => "one call never answered",
        }
    }

    /// What Mendline is told about its patience.
    pub(super) fn patience(self) -> &'static [&'static str] {
        match self {
            Trouble::Stalled => &["--call-timeout", "3s"],
            _ => &[],
        }
    }
}

/// What became of the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) answered: u64,
    pub(super) told: u64,
    pub(super) lost: u64,
    pub(super) hung: u64,
    /// Writes that ran more than once.
    pub(super) twice: u64,
    /// Writes that were answered and did not run.
    pub(super) invented: u64,
}

/// The server, which may be away.
struct Site {
    here: Option<Server>,
    address: SocketAddr,
    coming: Option<JoinHandle<std::io::Result<Server>>>,
    /// What ran at servers that are gone.
    ran: BTreeMap<String, u64>,
}

/// Most servers keep no events, so that nothing can be resumed; this one does, except where that is the trouble.
fn settings(trouble: Trouble) -> Settings {
    let (ids, retry_ms) = if trouble == Trouble::StreamCutForGood { (false, None) } else { (true, Some(100)) };
    Settings { era: Era::Legacy, ids, prime: ids, retry_ms, ..Settings::default() }
}

/// Tries it.
pub(super) async fn run(bridge: &Bridge, trouble: Trouble, calls: u64) -> std::io::Result<Came> {
    let server = Server::start(settings(trouble)).await?;
    let (url, address) = (server.url(), server.address());
    let mut site = Site { here: Some(server), address, coming: None, ran: BTreeMap::new() };
    let mut client = Client::start(bridge.command(&url, trouble)?)?;
    client.greet().await?;
    let begin = Instant::now();
    for call in 1..=calls {
        let is_struck = call == STRUCK;
        if is_struck {
            site.strike(trouble)?;
        }
        let delay = if is_struck && trouble == Trouble::Stalled { 60_000 } else { 0 };
        let tool = if call % 2 == 1 { "lookup" } else { "create_note" };
        let arguments = json!({ "key": format!("k{call}"), "delayMs": delay });
        client.request(call, "tools/call", &json!({ "name": tool, "arguments": arguments }));
        let next = begin + PACE * u32::try_from(call).unwrap_or(u32::MAX);
        client.listen(next, usize::MAX).await;
    }
    client.listen(Instant::now() + PATIENCE, usize::try_from(calls).unwrap_or(usize::MAX)).await;
    if !site.is_struck(trouble) {
        return Err(std::io::Error::other("the fault did not happen"));
    }
    let ran = site.ran().await?;
    let (mut came, has_ended) = (Came::default(), client.has_ended());
    for call in 1..=calls {
        let answer = client.answers().get(&call);
        let is_error =
            answer.is_some_and(|answer| answer.get("error").is_some() || answer["result"]["isError"] == true);
        match answer {
            Some(_) if is_error => came.told += 1,
            Some(_) => came.answered += 1,
            None if has_ended => came.lost += 1,
            None => came.hung += 1,
        }
        let times = ran.get(&format!("k{call}")).copied().unwrap_or(0);
        if call % 2 == 0 {
            came.twice += u64::from(times > 1);
            came.invented += u64::from(times == 0 && answer.is_some() && !is_error);
        }
    }
    Ok(came)
}

impl Site {
    fn strike(&mut self, trouble: Trouble) -> std::io::Result<()> {
        let Some(server) = &self.here else { return Ok(()) };
        match trouble {
            Trouble::StreamCut | Trouble::StreamCutForGood => {
                server.add(Rule::new("t14_reset_mid_body").nth(1)).map_err(std::io::Error::other)
            }
            Trouble::SessionForgotten => {
                server.forget_sessions();
                Ok(())
            }
            Trouble::Busy => {
                server.add(Rule::new("h30_429_retry_after").during(AWAY).value(1)).map_err(std::io::Error::other)
            }
            Trouble::Restarted => {
                self.ran = server.oracle().counts().executions;
                // Dropped is gone, with every connection.
                self.here = None;
                let address = self.address;
                self.coming = Some(tokio::spawn(async move {
                    sleep(AWAY).await;
                    Server::start_on(address, settings(trouble)).await
                }));
                Ok(())
            }
            Trouble::Stalled => Ok(()),
        }
    }

    /// Whether what should have happened did: a fault that strikes nobody proves nothing.
    fn is_struck(&self, trouble: Trouble) -> bool {
        let counts = self.here.as_ref().map(|server| server.oracle().counts()).unwrap_or_default();
        match trouble {
            Trouble::StreamCut | Trouble::StreamCutForGood => counts.struck_by("t14_reset_mid_body") == 1,
            Trouble::Busy => counts.struck_by("h30_429_retry_after") > 0,
            Trouble::SessionForgotten => counts.sessions_opened > counts.open_sessions,
            Trouble::Restarted => self.coming.is_some(),
            Trouble::Stalled => counts.executions_of(&format!("k{STRUCK}")) > 0,
        }
    }

    /// How often each call ran, wherever.
    async fn ran(mut self) -> std::io::Result<BTreeMap<String, u64>> {
        if let Some(coming) = self.coming.take() {
            self.here = Some(coming.await.map_err(std::io::Error::other)??);
        }
        for (key, times) in self.here.iter().flat_map(|server| server.oracle().counts().executions) {
            *self.ran.entry(key).or_default() += times;
        }
        Ok(self.ran)
    }
}
