//! Forwards one direction of one connection.
//!
//! Bytes are read, split into chunks by the toxics, and written when they are due. The pump does not read while too
//! many bytes wait or while nothing passes. It reads and discards a dead direction, so that the end of the sender is
//! counted although the receiver does not see it.

use std::collections::{HashMap, VecDeque};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::Direction;
use super::counts::DirectionCounts;
use super::shared::{ConnectionControl, Shared};
use crate::Ending;
use crate::toxic::{Chunk, Flow, Pacing, Payload};

/// The number of waiting bytes at which the pump stops reading, so that the sender sees backpressure.
const WAITING: usize = 1 << 20;
const AT_ONCE: usize = 64 << 10;

/// The reason why a direction ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A toxic cut the connection.
    Cut(Ending),
    /// A peer reset the connection or could not be written to.
    ByPeer,
}

/// One direction of one connection.
pub(super) struct Pump<'a> {
    shared: &'a Shared,
    control: &'a ConnectionControl,
    direction: Direction,
    waiting: VecDeque<Chunk>,
    waiting_bytes: usize,
    pacings: HashMap<u64, Pacing>,
    has_ended: bool,
}

impl<'a> Pump<'a> {
    pub(super) fn new(shared: &'a Shared, control: &'a ConnectionControl, direction: Direction) -> Pump<'a> {
        Pump {
            shared,
            control,
            direction,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            pacings: HashMap::new(),
            has_ended: false,
        }
    }

    /// Forwards until the sender has closed and the receiver has seen it.
    pub(super) async fn run(
        mut self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> Result<(), Broken> {
        let mut changed = self.shared.watch();
        let mut buffer = BytesMut::new();
        loop {
            changed.mark_unchanged();
            let flow = self.shared.flow(self.control, self.direction);
            if flow == Flow::Dead {
                self.discard_waiting();
                if !self.has_ended {
                    discard(&mut from, self.shared, self.direction).await;
                }
                // The receiver does not see the end, so the connection stays open until a toxic, a test or the other
                // direction ends it.
                return Ok(());
            }
            let due = self.waiting.front().filter(|_| flow == Flow::Pass).map(|chunk| chunk.due);
            let reads = flow == Flow::Pass && !self.has_ended && self.waiting_bytes < WAITING;
            buffer.reserve(AT_ONCE);
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = until(due) => {
                    if self.deliver(&mut to).await?.is_last() {
                        return Ok(());
                    }
                }
                read = from.read_buf(&mut buffer), if reads => match read {
                    Ok(1..) => self.take(buffer.split().freeze()),
                    Ok(0) => self.take_end(),
                    Err(_) => {
                        self.record(|counts| counts.ends += 1);
                        return Err(Broken::ByPeer);
                    }
                },
            }
        }
    }

    /// Queues bytes that were read.
    fn take(&mut self, bytes: Bytes) {
        self.record(|counts| counts.read += bytes.len() as u64);
        let chunk = Chunk { due: Instant::now(), payload: Payload::Bytes(bytes) };
        for mut chunk in self.shared.apply_toxics(self.direction, &mut self.pacings, chunk) {
            // Bytes stay in order, even if a removed toxic had delayed the ones before.
            chunk.due = self.waiting.back().map_or(chunk.due, |last| chunk.due.max(last.due));
            self.waiting_bytes += length(&chunk);
            self.waiting.push_back(chunk);
        }
    }

    /// Queues the end of the sender.
    fn take_end(&mut self) {
        self.has_ended = true;
        self.record(|counts| counts.ends += 1);
        let last = self.waiting.back().map_or_else(Instant::now, |last| last.due);
        let due = last.max(Instant::now() + self.shared.end_delay(self.direction));
        self.waiting.push_back(Chunk { due, payload: Payload::End });
    }

    /// Writes the first chunk, which is due.
    async fn deliver(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> Result<Delivered, Broken> {
        let Some(chunk) = self.waiting.pop_front() else { return Ok(Delivered::Some) };
        self.waiting_bytes -= length(&chunk);
        match chunk.payload {
            Payload::Bytes(bytes) => {
                to.write_all(&bytes).await.map_err(|_| Broken::ByPeer)?;
                self.record(|counts| {
                    counts.written += bytes.len() as u64;
                    counts.pieces += 1;
                });
                Ok(Delivered::Some)
            }
            Payload::End => {
                // A receiver that has gone needs no FIN.
                let _ = to.shutdown().await;
                Ok(Delivered::Last)
            }
            Payload::Cut(ending) => Err(Broken::Cut(ending)),
        }
    }

    /// Discards all waiting chunks.
    fn discard_waiting(&mut self) {
        let lost = self.waiting_bytes as u64;
        self.record(|counts| counts.lost += lost);
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    fn record(&self, update: impl FnOnce(&mut DirectionCounts)) {
        record(self.shared, self.direction, update);
    }
}

/// The position of a delivered chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivered {
    Some,
    Last,
}

impl Delivered {
    fn is_last(self) -> bool {
        self == Delivered::Last
    }
}

/// Reads and discards until the sender ends.
pub(super) async fn discard(from: &mut (impl AsyncRead + Unpin), shared: &Shared, direction: Direction) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        record(shared, direction, |counts| {
            counts.read += read as u64;
            counts.lost += read as u64;
        });
    }
    record(shared, direction, |counts| counts.ends += 1);
}

fn record(shared: &Shared, direction: Direction, update: impl FnOnce(&mut DirectionCounts)) {
    shared.counts.record(|counts| update(if direction == Direction::Up { &mut counts.up } else { &mut counts.down }));
}

fn length(chunk: &Chunk) -> usize {
    match &chunk.payload {
        Payload::Bytes(bytes) => bytes.len(),
        Payload::End | Payload::Cut(_) => 0,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
