//! Upstreams that are added while the others work, and removed again.
//!
//! They have no faults, so that every answer of theirs is the server's own until they are removed. Their clients leave
//! before the removal, as the sessions of a gateway do, or stay, as when the operator removes a server.

use std::time::Duration;

use mendline_core::Config;

use super::Pair;
use super::pair::{dialect, move_to_http, pair, upstream};
use crate::rng::Rng;
use crate::world::LateUpstream;

/// The label of the generator. With this value the seeds of the regressions have none.
pub(super) const LABEL: u64 = 902;

/// The percentage of worlds with late upstreams.
pub(super) const PERCENT: u64 = 12;

/// Draws up to three late upstreams, so that a world has at most four with its first one, and adds them to the plan.
pub(super) fn upstreams(
    config: &mut Config,
    pairs: &mut Vec<Pair>,
    fault_phase: Duration,
    rng: &Rng,
) -> Vec<LateUpstream> {
    let mut rng = rng.clone();
    let mut late = Vec::new();
    if !rng.percent(PERCENT) {
        return late;
    }
    let room = 4u64.saturating_sub(pairs.len() as u64);
    let millis = fault_phase.as_millis() as u64;
    for _ in 0..rng.between(1, 3).min(room) {
        let index = pairs.len();
        let mut rng = rng.fork(index as u64);
        let mut upstream = upstream(index, true, &mut rng);
        let mut pair = pair(&upstream, true, fault_phase, &mut rng);
        if rng.percent(35) {
            move_to_http(&mut upstream, &mut pair, true, &mut rng);
        }
        if let Some(site) = &pair.host.site {
            upstream.transport = mendline_core::config::Transport::Http(dialect(site.kind, &mut rng));
        }
        let (at, stays) = (rng.millis(0, millis * 3 / 4), rng.percent(80).then(|| rng.millis(1, millis / 2)));
        let client_leaves = rng.percent(50);
        // A client that stays belongs to no upstream any more, and would be taken for one of the next.
        let again = client_leaves && rng.percent(60);
        late.push(LateUpstream { index, at, stays, client_leaves, again });
        pairs.push(pair);
        config.upstreams.push(upstream);
    }
    late
}
