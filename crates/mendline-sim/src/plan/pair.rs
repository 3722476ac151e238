//! One upstream, its server and its clients.

use std::time::Duration;

use mendline_core::UpstreamConfig;
use mendline_core::config::{Catalogue, Dialect, Startup};

use super::{Guest, Pair};
use crate::client::Workload;
use crate::network_faults::{NetworkFaults, SessionLostReply};
use crate::rng::Rng;
use crate::server::{Era, ServerProfile};
use crate::server_faults::ServerFaults;
use crate::site::{HttpServerKind, Site};
use crate::world::Host;

pub(super) fn upstream(index: usize, has_no_faults: bool, rng: &mut Rng) -> UpstreamConfig {
    let mut it = UpstreamConfig::child(["notes", "files", "search"][index % 3], "notes-server");
    it.catalogue = Catalogue { cache: false, startup: Startup::Wait };
    if has_no_faults {
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

pub(super) fn pair(upstream: &UpstreamConfig, has_no_faults: bool, fault_phase: Duration, rng: &mut Rng) -> Pair {
    let era = *rng.pick(&[Era::Legacy, Era::Legacy, Era::Modern]);
    let odd = rng.percent(60);
    let work = *rng.pick(&[(0, 2), (1, 20), (5, 100), (50, 900)]);
    let baseline = ServerFaults { start: rng.millis(0, 600), ..ServerFaults::default() };
    let profile =
        ServerProfile { work, progress: 60, server_requests: *rng.pick(&[0, 10, 30]), notices: 15, odd, edition: 0 };
    // The client spreads its work over the fault phase; in a quarter of the worlds it sends everything at the
    // beginning.
    let left = *rng.pick(&[10, 20, 30, 60]);
    let mean = (fault_phase.as_millis() as u64 / left).clamp(1, 4_000);
    let mean = if rng.percent(25) { mean / 8 } else { mean };
    let workload = Workload {
        era,
        left: left as u32,
        pace: (0, 2 * mean),
        cancels: *rng.pick(&[0, 0, 10]),
        unsafes: 50,
        // A subscription occupies a call slot forever; with few slots, nothing else would be sent.
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
        limits_tools: false,
        site: None,
        rng: rng.fork(3),
    };
    let client_capacity = if has_no_faults { 65_536 } else { *rng.pick(&[200, 4_096, 65_536]) };
    Pair { host, workload, client_capacity, odd, catalogue: None }
}

/// Changes a child into an HTTP server.
pub(super) fn move_to_http(upstream: &mut UpstreamConfig, pair: &mut Pair, has_no_faults: bool, rng: &mut Rng) {
    let kind = match pair.host.era {
        Era::Modern => HttpServerKind::Modern,
        Era::Legacy => *rng.pick(&[
            HttpServerKind::Stateful,
            HttpServerKind::Stateful,
            HttpServerKind::Stateful,
            HttpServerKind::Stateless,
            HttpServerKind::Sse,
        ]),
    };
    upstream.place = "http://notes.example/mcp".into();
    if !has_no_faults {
        upstream.timeouts.handshake = Duration::from_secs(*rng.pick(&[5, 10]));
    }
    pair.host.site = Some(Site {
        kind,
        faults: NetworkFaults::default(),
        events: *rng.pick(&[0, 50, 100, 100]),
        names: rng.percent(60),
        polls: *rng.pick(&[0, 0, 0, 30]),
        session_lost_reply: if rng.fork(404).percent(40) {
            SessionLostReply::BadRequest
        } else {
            SessionLostReply::NotFound
        },
        comments: false,
        has_notice_stream: rng.percent(70),
        connect: *rng.pick(&[(0, 0), (0, 3), (1, 30)]),
        harmless: Vec::new(),
    });
}

/// Returns the configured dialect: automatic, or the correct one.
pub(super) fn dialect(kind: HttpServerKind, rng: &mut Rng) -> Dialect {
    match kind {
        _ if rng.percent(60) => Dialect::Auto,
        HttpServerKind::Sse => Dialect::Sse,
        HttpServerKind::Stateful | HttpServerKind::Stateless | HttpServerKind::Modern => Dialect::Streamable,
    }
}

/// Draws up to seven further clients of each upstream.
pub(super) fn guests(pairs: &[Pair], fault_phase: Duration, varied: bool, rng: &mut Rng) -> Vec<Guest> {
    let mut guests = Vec::new();
    if !rng.percent(20) {
        return guests;
    }
    let millis = fault_phase.as_millis() as u64;
    for (upstream, pair) in pairs.iter().enumerate() {
        for _ in 0..rng.between(0, 7) {
            let era = pair.host.era;
            let workload = Workload {
                left: rng.between(0, 30) as u32,
                pace: *rng.pick(&[(0, 20), (5, 500), (50, 3_000)]),
                cancels: *rng.pick(&[0, 5]),
                unsafes: 30,
                lists_first: rng.percent(80),
                varied,
                ..Workload::none(era)
            };
            let at = rng.millis(0, millis);
            let stays = if rng.percent(60) { Some(rng.millis(1, millis)) } else { None };
            guests.push(Guest { upstream, at, stays, workload });
        }
    }
    guests
}
