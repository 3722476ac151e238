//! Upstreams that come and go while the engine runs, as the shell of a gateway requests them.

use std::time::Duration;

use mendline_core::{ClientId, Input, UpstreamId};

use super::World;
use crate::client::Client;
use crate::clock::Due;
use crate::fact::Fact;
use crate::plan::Pair;

/// An upstream that is added late, and may be removed.
#[derive(Clone)]
pub struct LateUpstream {
    /// Its index.
    pub index: usize,
    /// The time at which it is added.
    pub at: Duration,
    /// The time after which it is removed.
    pub stays: Option<Duration>,
    /// Its client leaves before it is removed.
    pub client_leaves: bool,
    /// It is added once more after its removal, with the same number.
    pub again: bool,
}

/// A late upstream in the world.
pub(super) struct LateState {
    pub(super) plan: LateUpstream,
    workload: crate::client::Workload,
    capacity: u64,
    /// It exists in the engine.
    pub(super) is_there: bool,
    /// The number of times that it was added.
    added: u32,
}

impl World {
    /// Plans an upstream that is added late. Its host, its configuration and its terms are in the world already.
    pub fn plan_late_upstream(&mut self, plan: LateUpstream, pair: &Pair) {
        self.clock.after(plan.at, Due::UpstreamAdded(self.late.len()));
        let (workload, capacity) = (pair.workload.clone(), pair.client_capacity);
        self.late.push(LateState { plan, workload, capacity, is_there: false, added: 0 });
    }

    /// The number of upstreams that the engine has from the start.
    pub fn initial_upstreams(&self) -> usize {
        self.hosts.len() - self.late_upstreams
    }

    /// Returns whether the engine has this upstream now, as far as the shell knows.
    pub fn has_upstream(&self, upstream: usize) -> bool {
        self.late.iter().all(|late| late.plan.index != upstream || late.is_there)
    }

    /// Stops an upstream that is not used, as a gateway does.
    pub fn stop_idle(&mut self, upstream: usize) {
        self.stopped_idle.insert(upstream);
        self.send_input(Input::StopIdle { upstream: UpstreamId(upstream as u16) });
        self.settle_and_check();
    }

    /// Returns whether an upstream is idle because it was stopped: only a request starts it.
    pub fn is_stopped_idle(&self, upstream: usize) -> bool {
        self.stopped_idle.contains(&upstream) && self.link(upstream) == "Idle"
    }

    pub(super) fn upstream_added(&mut self, at: usize) {
        if self.finished.is_some() || self.healed || self.is_stopping {
            return;
        }
        let late = &mut self.late[at];
        late.is_there = true;
        late.added += 1;
        let (index, stays) = (late.plan.index, late.plan.stays);
        let (workload, capacity) = (late.workload.clone(), late.capacity);
        let id = ClientId(3_000 + 100 * index as u32 + late.added);
        let config = Box::new(self.configured[index].clone());
        let upstream = UpstreamId(index as u16);
        self.record(&Fact::UpstreamAdded(index));
        self.record(&Fact::WithoutFaults(index));
        self.send_input(Input::AddUpstream { upstream, config, like: None });
        let rng = self.rng.fork(u64::from(id.0));
        self.connect_client(Client::new(id, index, self.hosts[index].era, workload, capacity, false, rng));
        self.clock.after(Duration::from_millis(1), Due::ClientActs(id));
        if let Some(stays) = stays {
            self.clock.after(stays, Due::UpstreamLeaves(at));
        }
    }

    pub(super) fn upstream_leaves(&mut self, at: usize) {
        if self.finished.is_some() || self.healed || self.is_stopping {
            return;
        }
        let late = &self.late[at];
        let index = late.plan.index;
        if late.plan.client_leaves {
            let clients = (0..self.clients.len()).filter(|client| self.clients[*client].upstream == index);
            for client in clients.collect::<Vec<_>>() {
                self.client_disconnects(client);
            }
        }
        self.record(&Fact::RemovalRequested(index));
        self.send_input(Input::RemoveUpstream { upstream: UpstreamId(index as u16) });
    }

    /// The engine has removed an upstream: its number is free.
    pub(super) fn upstream_removed(&mut self, upstream: usize) {
        let Some(at) = self.late.iter().position(|late| late.plan.index == upstream) else {
            return self.record(&Fact::ContractBroken("the engine removed an upstream that was to stay"));
        };
        let late = &mut self.late[at];
        late.is_there = false;
        if late.plan.again && late.added == 1 {
            self.clock.after(Duration::from_millis(500), Due::UpstreamAdded(at));
        }
    }
}
