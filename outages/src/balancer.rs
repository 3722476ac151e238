//! haproxy and nginx, as Debian ships them, before a real server: reload, backend down, backend slow, idle timeout.
//!
//! The balancer decides how an outage looks: which status it answers, after how many of its own attempts, and which
//! connections it closes. The demands are those of the matrix.

mod backend;
mod demands;
mod process;

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::client::{Client, WARM_UP};
use crate::judge::Miss;
use crate::observed::Observed;
use crate::play::Stage;
use backend::Backend;
use process::Balancer;
/// The pause between calls that is longer than the idle timeout of the balancer.
const IDLE_PAUSE: Duration = Duration::from_millis(1_200);
/// The number of calls with such pauses.
const IDLE_CALLS: usize = 8;
/// The time after which a slow call becomes fast: longer than the timeout of the balancer, with which it answers 504.
const SLOW: Duration = Duration::from_millis(1_500);
/// The time for late answers.
const SETTLE: Duration = Duration::from_secs(30);

/// The balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Haproxy,
    Nginx,
}

/// The server behind the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// The fault server without faults: sessions, JSON answers.
    Faults,
    /// A server on the official Python SDK: sessions, answers as events.
    Python,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The balancer is reloaded while calls come.
    Reload,
    /// The backend is down for so many seconds while calls come.
    Down(u64),
    /// The backend is slower than the timeout of the balancer.
    Slow,
    /// The balancer closes connections that are idle for less than the pause between two calls.
    IdleTimeout,
}

/// One row: a balancer, a server and an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) balancer: Kind,
    pub(crate) server: ServerKind,
    pub(crate) event: Event,
}

impl Row {
    pub(crate) fn all() -> Vec<Row> {
        let mut rows = Vec::new();
        for balancer in [Kind::Haproxy, Kind::Nginx] {
            for server in [ServerKind::Faults, ServerKind::Python] {
                let events = [Event::Reload, Event::Down(1), Event::Down(10), Event::Slow, Event::IdleTimeout];
                rows.extend(events.map(|event| Row { balancer, server, event }));
            }
        }
        rows
    }

    pub(crate) fn name(&self) -> String {
        let balancer = match self.balancer {
            Kind::Haproxy => "haproxy",
            Kind::Nginx => "nginx",
        };
        let server = match self.server {
            ServerKind::Faults => "fault-server",
            ServerKind::Python => "python-sdk",
        };
        let event = match self.event {
            Event::Reload => "reload".to_owned(),
            Event::Down(seconds) => format!("backend-down-{seconds}"),
            Event::Slow => "backend-slow".to_owned(),
            Event::IdleTimeout => "idle-timeout".to_owned(),
        };
        format!("{balancer}/{server}/{event}")
    }
}

/// Runs a row and judges it.
pub(crate) async fn run(row: &Row, stage: &Stage) -> Result<Vec<Miss>, String> {
    let folder = stage.folder.join(row.name().replace('/', "-"));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut backend = Backend::start(row.server, stage, &folder).await?;
    let mut balancer = Balancer::start(row, backend.port(), &folder).await?;
    let epoch = Instant::now();
    let target = [format!("http://127.0.0.1:{}/mcp", balancer.port())];
    let mut client = Client::start(&stage.mendline, &target, &folder, &[], epoch)?;
    client.warm_up().await?;
    let played = Played { folder: &folder, epoch };
    let mut observed = match row.event {
        Event::Reload => played.reload(&mut client, &mut balancer).await?,
        Event::Down(seconds) => played.down(&mut client, &mut backend, Duration::from_secs(seconds)).await?,
        Event::Slow => played.slow(&mut client, &backend).await?,
        Event::IdleTimeout => played.idle(&mut client).await,
    };
    client.settle(Instant::now() + SETTLE).await;
    let ended = client.end().await;
    observed.calls = ended.calls;
    observed.strays = ended.strays;
    observed.exit_code = ended.exit_code;
    observed.executions = backend.executions();
    let dials = stage.counter.as_ref().map(|counter| counter.dials_of(balancer.port()));
    observed.dials = dials.map(|dials| dials.iter().map(|at| at.saturating_duration_since(epoch)).collect());
    balancer.stop().await;
    Ok(demands::judge(row, &observed))
}

struct Played<'a> {
    folder: &'a Path,
    epoch: Instant,
}

impl Played<'_> {
    async fn reload(&self, client: &mut Client, balancer: &mut Balancer) -> Result<Observed, String> {
        agent(client, Instant::now() + Duration::from_secs(1)).await;
        let begin = self.epoch.elapsed();
        balancer.reload().await?;
        // The old process ends its last connections up to five seconds later.
        agent(client, Instant::now() + Duration::from_secs(8)).await;
        Ok(Observed { begin, end: begin, ..Observed::default() })
    }

    async fn down(&self, client: &mut Client, backend: &mut Backend, time: Duration) -> Result<Observed, String> {
        agent(client, Instant::now() + Duration::from_secs(1)).await;
        backend.stop().await;
        let begin = self.epoch.elapsed();
        agent(client, Instant::now() + time).await;
        backend.restart().await?;
        let end = self.epoch.elapsed();
        agent(client, Instant::now() + Duration::from_secs(3)).await;
        Ok(Observed { begin, end, ..Observed::default() })
    }

    /// Calls that the balancer answers with 504: a read and an unsafe call that are slow once, and a read that stays
    /// slow. Fast calls go on meanwhile.
    async fn slow(&self, client: &mut Client, backend: &Backend) -> Result<Observed, String> {
        let (soon, never) = (self.folder.join("soon"), self.folder.join("never"));
        let begin = self.epoch.elapsed();
        let keys = [client.read(Some(&soon)).await, client.write_note(Some(&soon)).await];
        let stays_slow = client.read(Some(&never)).await;
        if !backend.has_run(&keys, Instant::now() + WARM_UP).await {
            return Err("the slow calls did not reach the backend".to_owned());
        }
        agent(client, Instant::now() + SLOW).await;
        fs::write(&soon, "").map_err(|why| why.to_string())?;
        let end = self.epoch.elapsed();
        agent(client, Instant::now() + Duration::from_secs(3)).await;
        // Its three attempts end by the balancer's timeout, not by the file.
        client.answer(&stays_slow, Instant::now() + SETTLE).await;
        fs::write(&never, "").map_err(|why| why.to_string())?;
        Ok(Observed { begin, end, stays_slow: Some(stays_slow), ..Observed::default() })
    }

    async fn idle(&self, client: &mut Client) -> Observed {
        let begin = self.epoch.elapsed();
        let mut at = Instant::now();
        for number in 0..IDLE_CALLS {
            at += IDLE_PAUSE;
            sleep_until(at).await;
            if number % 2 == 0 {
                client.write_note(None).await;
            } else {
                client.read(None).await;
            }
        }
        Observed { begin, end: begin, ..Observed::default() }
    }
}

/// Calls in a fixed interval until then.
async fn agent(client: &mut Client, until: Instant) {
    client.call_like_agent(until).await;
    sleep_until(until).await;
}
