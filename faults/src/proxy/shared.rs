//! The shared state of all connections: toxics, open connections and counts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Direction;
use super::counts::SharedCounts;
use crate::Ending;
use crate::toxic::{AcceptMode, Chunk, ExistingConnections, Flow, Pacing, Payload, Toxic};

/// The shared state of all connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstream: SocketAddr,
    pub(super) counts: SharedCounts,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    numbers: u64,
    toxics: Vec<Installed>,
    connections: HashMap<u64, Arc<ConnectionControl>>,
}

#[derive(Clone, Debug)]
struct Installed {
    number: u64,
    direction: Direction,
    toxic: Toxic,
    since: Instant,
}

impl Installed {
    /// Returns whether the toxic applies to a connection. Connections and toxics share one sequence of numbers, so
    /// their order is known.
    fn is_on(&self, control: &ConnectionControl) -> bool {
        !self.toxic.behaviour().drops_packets() || control.number < self.number
    }
}

/// Control over one connection from outside its task.
#[derive(Debug)]
pub(super) struct ConnectionControl {
    number: u64,
    pub(super) ending: watch::Sender<Option<Ending>>,
    /// Directions that are dead: up and down.
    dead: Mutex<(bool, bool)>,
    /// True if the connection is stopped.
    is_clogged: AtomicBool,
}

impl ConnectionControl {
    fn silence(&self, direction: Direction) {
        let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.0 |= direction.covers(Direction::Up);
        dead.1 |= direction.covers(Direction::Down);
    }

    fn is_dead(&self, direction: Direction) -> bool {
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        if direction == Direction::Up { dead.0 } else { dead.1 }
    }
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Shared {
        Shared { upstream, counts: SharedCounts::new(), state: Mutex::default(), changed: watch::channel(()).0 }
    }

    pub(super) fn add(&self, direction: Direction, toxic: Toxic) -> u64 {
        let mut state = self.state();
        state.numbers += 1;
        let number = state.numbers;
        for control in state.connections.values() {
            match toxic.behaviour().on_existing() {
                ExistingConnections::Keep => {}
                ExistingConnections::Silence => control.silence(direction),
                ExistingConnections::Reset => drop(control.ending.send_replace(Some(Ending::Reset))),
            }
        }
        state.toxics.push(Installed { number, direction, toxic, since: Instant::now() });
        drop(state);
        self.changed.send_replace(());
        number
    }

    pub(super) fn remove(&self, number: u64) -> bool {
        let mut state = self.state();
        let before = state.toxics.len();
        state.toxics.retain(|installed| installed.number != number);
        let was_there = state.toxics.len() < before;
        drop(state);
        self.changed.send_replace(());
        was_there
    }

    pub(super) fn clear(&self) {
        self.state().toxics.clear();
        self.changed.send_replace(());
    }

    pub(super) fn toxics(&self) -> Vec<(u64, Direction, Toxic)> {
        let state = self.state();
        state.toxics.iter().map(|it| (it.number, it.direction, it.toxic.clone())).collect()
    }

    /// Subscribes to changes of toxics.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns the treatment of new connections, and how long it stays the same.
    pub(super) fn accept_mode(&self) -> (AcceptMode, Option<Duration>) {
        let state = self.state();
        let modes = state.toxics.iter().map(|it| it.toxic.behaviour().accept_mode(it.since.elapsed()));
        modes.fold((AcceptMode::Accept, None), |(worst, soonest), (accept_mode, lasts)| {
            let soonest: Option<Duration> = match (soonest, lasts) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            (worst.max(accept_mode), soonest)
        })
    }

    /// Handles a change of mode: a toxic that resets connections does so each time it begins to refuse new ones.
    pub(super) fn accept_mode_changed(&self, accept_mode: AcceptMode) {
        let resets =
            self.state().toxics.iter().any(|it| it.toxic.behaviour().on_existing() == ExistingConnections::Reset);
        if accept_mode == AcceptMode::Refuse && resets {
            self.end_all(Ending::Reset);
        }
    }

    pub(super) fn end_all(&self, ending: Ending) {
        for control in self.state().connections.values() {
            control.ending.send_replace(Some(ending));
        }
    }

    /// Registers a new connection.
    pub(super) fn open_connection(&self) -> (u64, Arc<ConnectionControl>) {
        let mut state = self.state();
        state.numbers += 1;
        let number = state.numbers;
        let is_clogged = AtomicBool::new(false);
        let control =
            Arc::new(ConnectionControl { number, ending: watch::channel(None).0, dead: Mutex::default(), is_clogged });
        state.connections.insert(number, Arc::clone(&control));
        drop(state);
        self.counts.record(|counts| {
            counts.accepted += 1;
            counts.open += 1;
        });
        (number, control)
    }

    /// Removes a connection.
    pub(super) fn close_connection(&self, number: u64) {
        self.state().connections.remove(&number);
        self.counts.record(|counts| counts.open -= 1);
    }

    /// Returns the flow of a connection in this direction. A dead direction stays dead.
    pub(super) fn flow(&self, control: &ConnectionControl, direction: Direction) -> Flow {
        if control.is_dead(direction) {
            return Flow::Dead;
        }
        if control.is_clogged.load(Ordering::Relaxed) {
            return Flow::Hold;
        }
        let state = self.state();
        let on_it = state.toxics.iter().filter(|it| it.direction.covers(direction) && it.is_on(control));
        let flows = on_it.map(|it| it.toxic.behaviour().flow());
        let flow = flows.max().unwrap_or(Flow::Pass);
        if flow == Flow::Dead {
            control.silence(direction);
        }
        flow
    }

    /// Returns the open connections in the order in which they were accepted.
    pub(super) fn connections(&self) -> Vec<u64> {
        let mut numbers: Vec<_> = self.state().connections.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Stops or resumes one connection. Returns whether it exists.
    pub(super) fn clog(&self, number: u64, is_clogged: bool) -> bool {
        let control = self.state().connections.get(&number).cloned();
        let is_there = control.is_some_and(|control| {
            control.is_clogged.store(is_clogged, Ordering::Relaxed);
            true
        });
        self.changed.send_replace(());
        is_there
    }

    /// Returns whether packets from the client of this connection are dropped.
    pub(super) fn is_filtered(&self, control: &ConnectionControl) -> bool {
        let state = self.state();
        state
            .toxics
            .iter()
            .any(|it| it.direction.covers(Direction::Up) && it.toxic.behaviour().drops_packets() && it.is_on(control))
    }

    /// Applies all toxics to bytes that were just read.
    pub(super) fn apply_toxics(
        &self,
        direction: Direction,
        pacings: &mut HashMap<u64, Pacing>,
        chunk: Chunk,
    ) -> Vec<Chunk> {
        let state = self.state();
        let mut chunks = vec![chunk];
        for it in state.toxics.iter().filter(|it| it.direction.covers(direction)) {
            let pacing = pacings.entry(it.number).or_default();
            let pass = |chunk: Chunk| match chunk.payload {
                Payload::Bytes(_) => it.toxic.behaviour().pass(pacing, chunk),
                Payload::End | Payload::Cut(_) => vec![chunk],
            };
            chunks = chunks.into_iter().flat_map(pass).collect();
        }
        chunks
    }

    /// The delay before the end of a sender is passed on.
    pub(super) fn end_delay(&self, direction: Direction) -> Duration {
        let state = self.state();
        state.toxics.iter().filter(|it| it.direction.covers(direction)).map(|it| it.toxic.behaviour().end_delay()).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
