//! What a seed means: who is there, what they do, what goes wrong and when.
//!
//! A plan is rolled whole before the world begins, so that a seed can be read: `Plan::new(4711)` prints as a few lines. Small
//! limits, small pipes and short deadlines are as likely as the defaults, because limits that are never reached are never
//! tested. In worlds with several upstreams the last one is left alone, for I10. About a third of the upstreams are reached
//! over HTTP; that is rolled with dice of its own, so the others are what they were before there was HTTP. The same goes for
//! mending: in two worlds of three people have chosen policies, clients rely on levels, subscriptions and lists, and more of
//! the faults are such as need mending. And the same again for policies: in about half of the worlds there are breakers,
//! limits and tools with times of their own, and more of the faults make a server sick or busy.

use std::fmt;
use std::time::Duration;

use mendline_core::config::{
    AutoReconnect, Breaker, Catalogue, Dialect, KeepAlive, OnError, OpenFor, RateLimit, Startup, ToolPolicy, Transport,
};
use mendline_core::policy::effect::Effect;
use mendline_core::{Config, Lifetime, Moment, UpstreamConfig};

use crate::client::Workload;
use crate::rng::Rng;
use crate::fault::{self, Fault};
use crate::catalogue::CachedCatalogue;
use crate::server::{Era, ServerProfile};
use crate::site::{Site, HttpServerKind};
use crate::server_faults::ServerFaults;
use crate::network_faults::NetworkFaults;
use crate::world::Host;

/// The label of the dice for everything about HTTP. With this one the seeds that once broke a promise keep their children.
const HTTP: u64 = 208;

/// The label of the dice for everything about mending. With this one the same seeds have none of it.
const RECOVERY_POLICIES: u64 = 386;

/// The label of the dice for everything about policies. With this one the same seeds have none of it.
const LIMITS: u64 = 500;

/// The label of the dice for everything about starting up. With this one the same seeds have none of that either.
const STARTUP: u64 = 460;

/// How a world ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The engine is told to stop.
    Stop,
    /// It is told twice: at once.
    StopTwice,
    /// The clients close their ends.
    ClientsEnd,
}

/// One upstream and its client.
pub struct Pair {
    /// The machine room.
    pub host: Host,
    /// What the client does.
    pub workload: Workload,
    /// How many bytes the pipe to the client holds.
    pub client_capacity: u64,
    /// Whether both write oddly.
    pub odd: bool,
    /// What the engine remembers of it.
    pub catalogue: Option<CachedCatalogue>,
}

/// One fault to come.
#[derive(Clone, Copy)]
pub struct ScheduledFault {
    /// What.
    pub fault: &'static dyn Fault,
    /// Where.
    pub upstream: usize,
    /// When, from the beginning.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
}

/// Everything that a seed decides.
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// What the engine is told.
    pub config: Config,
    /// Who is there.
    pub pairs: Vec<Pair>,
    /// What goes wrong.
    pub scheduled_faults: Vec<ScheduledFault>,
    /// How long the storm lasts.
    pub fault_phase: Duration,
    /// How it ends.
    pub ending: Ending,
    /// It ends in the middle of the storm, with every fault in place.
    pub abrupt: bool,
    /// People have chosen policies, clients rely on things, and what is mended is compared at the end.
    pub checks_recovery: bool,
    /// After the healing nobody wants anything for a while.
    pub quiet: bool,
}

impl Plan {
    /// The plan of this seed.
    pub fn new(seed: u64) -> Plan {
        let mut rng = Rng::new(seed);
        let count = *rng.pick(&[1, 1, 1, 2, 2, 3]);
        let fault_phase = Duration::from_secs(*rng.pick(&[3, 5, 10, 20, 60, 150]));
        let ending = *rng.pick(&[Ending::Stop, Ending::Stop, Ending::StopTwice, Ending::ClientsEnd]);
        let mut recovery_rng = rng.fork(RECOVERY_POLICIES);
        let checks_recovery = recovery_rng.percent(65);
        let quiet = checks_recovery && recovery_rng.percent(25);
        let mut limits_rng = rng.fork(LIMITS);
        let has_limits = limits_rng.percent(45);
        let mut startup_rng = rng.fork(STARTUP);
        let has_startup = startup_rng.percent(25);
        let mut config = Config::new(Vec::new());
        config.lifetime = if ending == Ending::ClientsEnd { Lifetime::WithClients } else { Lifetime::UntilStopped };
        let mut pairs = Vec::new();
        for place in 0..count {
            let mut rng = rng.fork(100 + place as u64);
            let unharmed = count > 1 && place == count - 1;
            let mut upstream = upstream(place, unharmed, &mut rng);
            let mut pair = pair(&upstream, unharmed, fault_phase, &mut rng);
            let mut http_rng = rng.fork(HTTP);
            if http_rng.percent(35) {
                move_to_http(&mut upstream, &mut pair, unharmed, &mut http_rng);
            }
            if checks_recovery {
                let mut recovery_rng = recovery_rng.fork(place as u64);
                pair.workload.varied = true;
                if !unharmed {
                    choose_recovery_policies(&mut upstream, &mut recovery_rng);
                }
            }
            if !unharmed {
                choose_limits(&mut upstream, has_limits, &mut limits_rng.fork(place as u64));
            }
            if has_startup {
                start_at_once(&mut upstream, &mut pair, &mut startup_rng.fork(place as u64));
            }
            pairs.push(pair);
            config.upstreams.push(upstream);
        }
        let harmed = if count > 1 { count - 1 } else { 1 };
        let over_http: Vec<bool> = pairs.iter().map(|pair| pair.host.site.is_some()).collect();
        let mut scheduled_faults = scheduled_faults(harmed, &over_http, fault_phase, &mut rng.fork(7));
        if checks_recovery {
            for scheduled in &mut scheduled_faults {
                if recovery_rng.percent(60) {
                    let among = if over_http[scheduled.upstream] { fault::RECOVERY_HTTP } else { fault::RECOVERY_CHILD };
                    scheduled.fault = *recovery_rng.pick(among);
                }
                // Only modern servers ask back by an answer, so it would be seen too seldom.
                let asks_back = pairs[scheduled.upstream].host.era == Era::Modern && recovery_rng.fork(71).percent(12);
                if let (true, Some(fault)) = (asks_back, fault::by_name("m71_input_required_across_reconnect")) {
                    scheduled.fault = fault;
                }
            }
        }
        if has_limits {
            // These come on top: what else is found in these worlds is found with policies in the way as well.
            for place in 0..scheduled_faults.len() {
                if limits_rng.percent(60) {
                    let scheduled = &scheduled_faults[place];
                    let among = if over_http[scheduled.upstream] { fault::LIMITS_HTTP } else { fault::LIMITS_CHILD };
                    let (upstream, at, lasts) = (scheduled.upstream, scheduled.at, scheduled.lasts);
                    scheduled_faults.push(ScheduledFault { fault: *limits_rng.pick(among), upstream, at, lasts });
                }
            }
        }
        if has_startup && startup_rng.percent(60) {
            // A server that is not there yet when its client is.
            let upstream = startup_rng.below(harmed as u64) as usize;
            let names: &[&str] = match over_http[upstream] {
                true => &["n05_connect_refused", "n06_connect_blackhole", "n08_tls_stall"],
                false => &["p56_slow_start", "p56_slow_start", "p61_spawn_eagain", "p57_stopped"],
            };
            let lasts = startup_rng.millis(500, (fault_phase.as_millis() as u64).min(40_000));
            scheduled_faults.extend(fault::by_name(names[startup_rng.below(names.len() as u64) as usize]).map(|fault| ScheduledFault {
                fault,
                upstream,
                at: Duration::ZERO,
                lasts,
            }));
        }
        let mut last = rng.fork(8);
        for (place, pair) in pairs.iter_mut().enumerate() {
            if let Some(site) = &mut pair.host.site {
                scheduled_faults.iter().filter(|scheduled| scheduled.upstream == place).for_each(|scheduled| scheduled.fault.prepare(site));
                config.upstreams[place].transport = Transport::Http(dialect(site.kind, &mut last.fork(place as u64)));
            }
        }
        let abrupt = last.percent(20);
        if abrupt
            && last.percent(30)
            && let Some(fault) = fault::by_name(if over_http[0] { "n05_connect_refused" } else { "p61_spawn_eagain" })
        {
            // An end while nothing can be started or reached: links that wait or are being dialed have to end too.
            scheduled_faults.push(ScheduledFault { fault, upstream: 0, at: fault_phase * 9 / 10, lasts: fault_phase });
        }
        Plan { seed, config, pairs, scheduled_faults, fault_phase, ending, abrupt, checks_recovery, quiet }
    }
}

fn upstream(place: usize, unharmed: bool, rng: &mut Rng) -> UpstreamConfig {
    let mut it = UpstreamConfig::child(["notes", "files", "search"][place % 3], "notes-server");
    it.catalogue = Catalogue { cache: false, startup: Startup::Wait };
    if unharmed {
        return it;
    }
    let call = *rng.pick(&[3, 10, 60, 300]);
    it.timeouts.call = Duration::from_secs(call);
    it.timeouts.total = Duration::from_secs(call * *rng.pick(&[2, 6]));
    it.timeouts.recovery = Duration::from_secs(*rng.pick(&[2, 10, 45]));
    it.timeouts.handshake = Duration::from_secs(*rng.pick(&[5, 60]));
    (it.limits.in_flight, it.limits.waiting) = *rng.pick(&[(1, 4), (4, 8), (16, 32), (256, 1024), (256, 1024)]);
    it
}

/// A world in which nobody waits for a server to start.
fn start_at_once(upstream: &mut UpstreamConfig, pair: &mut Pair, rng: &mut Rng) {
    upstream.catalogue = Catalogue {
        cache: rng.percent(85),
        startup: *rng.pick(&[Startup::AtOnce, Startup::AtOnce, Startup::AtOnce, Startup::Wait]),
    };
    pair.workload.plain = rng.percent(85);
    if upstream.catalogue.cache && rng.percent(65) {
        // Either what it has today, or what it had on another day.
        let edition = *rng.pick(&[0, 90, 91]);
        pair.catalogue = Some(CachedCatalogue { name: upstream.name.clone(), era: pair.host.era, edition });
    }
}

/// What people may choose about mending.
fn choose_recovery_policies(upstream: &mut UpstreamConfig, rng: &mut Rng) {
    let second = Duration::from_secs(1);
    upstream.keep_alive = *rng.pick(&[
        None,
        Some(KeepAlive::default()),
        Some(KeepAlive { interval: second, timeout: second / 2 }),
        Some(KeepAlive { interval: 5 * second, timeout: second }),
        Some(KeepAlive { interval: 5 * second, timeout: 2 * second }),
    ]);
    let quick = AutoReconnect {
        initial_retry_delay: Some(Duration::from_millis(50)),
        max_retry_delay: Some(2 * second),
        backoff_multiplier: Some(*rng.pick(&[1.0, 3.0])),
        ..AutoReconnect::default()
    };
    let retries = |most| AutoReconnect { max_retries: Some(most), ..AutoReconnect::default() };
    let mut auto_reconnect = match rng.below(8) {
        0 => AutoReconnect { enabled: Some(false), ..AutoReconnect::default() },
        1 => retries(Some(1)),
        2 => retries(Some(3)),
        3 => retries(None),
        4 => quick,
        _ => AutoReconnect::default(),
    };
    auto_reconnect.silent = Some(rng.percent(50));
    upstream.reconnect = auto_reconnect.into();
    upstream.retry.attempts = *rng.pick(&[1, 2, 3, 3, 5]);
    upstream.resume_attempts = *rng.pick(&[0, 2, 10, 10]);
    upstream.trust_hints = rng.percent(80);
    if rng.percent(30) {
        upstream.tools = [("read_note", Effect::Read), ("put_note", *rng.pick(&[Effect::Idempotent, Effect::Unsafe]))]
            .map(|(tool, effect)| (tool.to_owned(), ToolPolicy { effect: Some(effect), timeout: None }))
            .into();
    }
}

/// What people may choose about a server that is sick, busy or slow. In worlds where nobody does, there is no breaker either.
fn choose_limits(upstream: &mut UpstreamConfig, has_limits: bool, rng: &mut Rng) {
    if !has_limits {
        upstream.breaker = None;
        return;
    }
    let usual = Breaker::default();
    let second = Duration::from_secs(1);
    upstream.breaker = *rng.pick(&[
        None,
        Some(usual),
        Some(usual),
        Some(Breaker { count_tool_errors: true, failures: 3, ..usual }),
        Some(Breaker { failures: 2, open_for: OpenFor::Exactly(second), ..usual }),
        Some(Breaker { failures: 1_000, window_calls: 4, window: 10 * second, ..usual }),
        Some(Breaker { failures: 3, open_for: OpenFor::Growing { first: second, cap: 4 * second }, ..usual }),
    ]);
    upstream.rate_limit = *rng.pick(&[
        None,
        None,
        Some(RateLimit { burst: 2, per_second: 2.0 }),
        Some(RateLimit { burst: 10, per_second: 10.0 }),
        Some(RateLimit { burst: 1, per_second: 20.0 }),
    ]);
    if rng.percent(30) {
        let timeout = Some(upstream.timeouts.call.min(*rng.pick(&[second, 3 * second])));
        let effect = upstream.tools.get("read_note").and_then(|tool| tool.effect);
        upstream.tools.insert("read_note".to_owned(), ToolPolicy { effect, timeout });
    }
    if rng.percent(20) {
        upstream.retry.codes = [(-32603, *rng.pick(&[OnError::Never, OnError::Reads]))].into();
    }
}

fn pair(upstream: &UpstreamConfig, unharmed: bool, fault_phase: Duration, rng: &mut Rng) -> Pair {
    let era = *rng.pick(&[Era::Legacy, Era::Legacy, Era::Modern]);
    let odd = rng.percent(60);
    let work = *rng.pick(&[(0, 2), (1, 20), (5, 100), (50, 900)]);
    let baseline = ServerFaults { start: rng.millis(0, 600), ..ServerFaults::default() };
    let profile = ServerProfile { work, progress: 60, server_requests: *rng.pick(&[0, 10, 30]), notices: 15, odd, edition: 0 };
    // The client spreads its work over the storm; a quarter of the worlds get it all at the beginning.
    let left = *rng.pick(&[10, 20, 30, 60]);
    let mean = (fault_phase.as_millis() as u64 / left).clamp(1, 4_000);
    let mean = if rng.percent(25) { mean / 8 } else { mean };
    let workload = Workload {
        era,
        left: left as u32,
        pace: (0, 2 * mean),
        cancels: *rng.pick(&[0, 0, 10]),
        unsafes: 50,
        // A subscription takes a place for ever; with one place in all, nothing else would ever be sent.
        listens: upstream.limits.in_flight > 16,
        lists_first: rng.percent(80),
        varied: false,
        plain: false,
    };
    let host = Host {
        name: upstream.name.clone(),
        era,
        flipped: false,
        faults: baseline.clone(),
        baseline,
        profile,
        capacity: *rng.pick(&[150, 400, 4_096, 65_536, 65_536]),
        pull_ahead: *rng.pick(&[0, 0, 500, 8_192]),
        latency: *rng.pick(&[(0, 0), (0, 1), (0, 5)]),
        call_slots: upstream.limits.in_flight + upstream.limits.waiting,
        site: None,
        rng: rng.fork(3),
    };
    let client_capacity = if unharmed { 65_536 } else { *rng.pick(&[200, 4_096, 65_536]) };
    Pair { host, workload, client_capacity, odd, catalogue: None }
}

/// Puts a server behind a URL instead of into a child process.
fn move_to_http(upstream: &mut UpstreamConfig, pair: &mut Pair, unharmed: bool, rng: &mut Rng) {
    let kind = match pair.host.era {
        Era::Modern => HttpServerKind::Modern,
        Era::Legacy => {
            *rng.pick(&[HttpServerKind::Stateful, HttpServerKind::Stateful, HttpServerKind::Stateful, HttpServerKind::Stateless, HttpServerKind::Sse])
        }
    };
    upstream.place = "http://notes.example/mcp".into();
    if !unharmed {
        upstream.timeouts.handshake = Duration::from_secs(*rng.pick(&[5, 10]));
    }
    pair.host.site = Some(Site {
        kind,
        faults: NetworkFaults::default(),
        events: *rng.pick(&[0, 50, 100, 100]),
        names: rng.percent(60),
        polls: *rng.pick(&[0, 0, 0, 30]),
        has_notice_stream: rng.percent(70),
        connect: *rng.pick(&[(0, 0), (0, 3), (1, 30)]),
    });
}

/// What the engine is told about the server: nothing, or the truth.
fn dialect(kind: HttpServerKind, rng: &mut Rng) -> Dialect {
    match kind {
        _ if rng.percent(60) => Dialect::Auto,
        HttpServerKind::Sse => Dialect::Sse,
        HttpServerKind::Stateful | HttpServerKind::Stateless | HttpServerKind::Modern => Dialect::Streamable,
    }
}

fn scheduled_faults(harmed: usize, over_http: &[bool], fault_phase: Duration, rng: &mut Rng) -> Vec<ScheduledFault> {
    let count = *rng.pick(&[0, 1, 1, 2, 2, 3, 5]);
    let mut scheduled_faults: Vec<ScheduledFault> = Vec::new();
    let mut http_rng = rng.fork(HTTP);
    for _ in 0..count {
        let fault = pick_fault(fault::CHILD, rng);
        let upstream = rng.below(harmed as u64) as usize;
        let fault = if over_http[upstream] { pick_http_fault(&mut http_rng) } else { fault };
        let at = rng.millis(0, fault_phase.as_millis() as u64 * 9 / 10);
        // Some are there from the beginning: greetings can go wrong too.
        let at = if over_http[upstream] && http_rng.percent(20) { Duration::ZERO } else { at };
        let lasts = rng.millis(20, (fault_phase.as_millis() as u64).min(60_000));
        scheduled_faults.push(ScheduledFault { fault, upstream, at, lasts });
    }
    scheduled_faults
}

fn pick_fault(among: &[&'static dyn Fault], rng: &mut Rng) -> &'static dyn Fault {
    let fault = *rng.pick(among);
    // A client that leaves takes the interesting part with it, so most of those rolls are rolled again.
    if fault.ends_client() && rng.percent(60) { *rng.pick(among) } else { fault }
}

/// Most are such as only HTTP servers know.
fn pick_http_fault(rng: &mut Rng) -> &'static dyn Fault {
    if rng.percent(80) { *rng.pick(fault::HTTP_ONLY) } else { pick_fault(fault::HTTP_SHARED, rng) }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.abrupt { ", in the middle of it" } else { "" };
        writeln!(f, "seed {}: a storm of {:?}, ends with {:?}{when}", self.seed, self.fault_phase, self.ending)?;
        for (upstream, pair) in self.config.upstreams.iter().zip(&self.pairs) {
            if let Some(site) = &pair.host.site {
                writeln!(
                    f,
                    "  over HTTP: {:?} by {:?}, {}% events, named: {}, {}% polls, speaks up: {}, connects in {:?} ms",
                    site.kind, upstream.transport, site.events, site.names, site.polls, site.has_notice_stream, site.connect
                )?;
            }
            writeln!(
                f,
                "  upstream {} ({:?}): call {:?}, total {:?}, recovery {:?}, places {} + {}, pipe {} bytes, work {:?} ms, {} things to do",
                upstream.name,
                pair.host.era,
                upstream.timeouts.call,
                upstream.timeouts.total,
                upstream.timeouts.recovery,
                upstream.limits.in_flight,
                upstream.limits.waiting,
                pair.host.capacity,
                pair.host.profile.work,
                pair.workload.left,
            )?;
        }
        if self.checks_recovery {
            for upstream in &self.config.upstreams {
                let (attempts, resumes) = (upstream.retry.attempts, upstream.resume_attempts);
                writeln!(
                    f,
                    "  chosen for {}: {:?}, {:?}, {attempts} attempts, {resumes} resumptions, hints: {}, {:?}",
                    upstream.name, upstream.keep_alive, upstream.reconnect, upstream.trust_hints, upstream.tools
                )?;
            }
        }
        for upstream in self.config.upstreams.iter().filter(|it| it.breaker.is_some() || it.rate_limit.is_some()) {
            let (codes, tools) = (&upstream.retry.codes, &upstream.tools);
            let UpstreamConfig { name, breaker, rate_limit, .. } = upstream;
            writeln!(f, "  policies of {name}: {breaker:?}, {rate_limit:?}, {codes:?}, {tools:?}")?;
        }
        for (upstream, pair) in self.config.upstreams.iter().zip(&self.pairs) {
            if upstream.catalogue.cache || upstream.catalogue.startup == Startup::AtOnce {
                writeln!(f, "  starting {}: {:?}, remembers {:?}", upstream.name, upstream.catalogue, pair.catalogue)?;
            }
        }
        for scheduled in &self.scheduled_faults {
            writeln!(
                f,
                "  {} strikes {} at {} for {:?}",
                scheduled.fault.name(),
                self.config.upstreams[scheduled.upstream].name,
                Moment::ZERO + scheduled.at,
                scheduled.lasts
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_startup(seed: u64, label: u64) -> bool {
        let mut rng = Rng::new(seed);
        rng.pick(&[1, 1, 1, 2, 2, 3]);
        rng.pick(&[3, 5, 10, 20, 60, 150]);
        rng.pick(&[Ending::Stop, Ending::Stop, Ending::StopTwice, Ending::ClientsEnd]);
        rng.fork(label).percent(25)
    }

    #[test]
    fn worlds_that_once_broke_a_promise_are_still_the_worlds_that_they_were() {
        let broken = [12, 35, 183, 423, 652, 3206, 3298, 3805, 3938, 4380, 4437, 4617, 5272, 7412];
        let spares = |label: &u64| broken.iter().all(|seed| !has_startup(*seed, *label));
        assert!(spares(&STARTUP), "this label would change them; {:?} would not", (400..10_000).find(spares));
    }
}
