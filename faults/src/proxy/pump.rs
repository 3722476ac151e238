//! One direction of one connection.
//!
//! Bytes are read, turned into parcels by the toxics in place, and written when they are due. Nothing is read while too much
//! waits, or while nothing passes; a direction that is dead is read and forgotten, so that the end of its sender is noticed
//! though nobody is told.

use std::collections::{HashMap, VecDeque};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::Direction;
use super::counts::DirectionCounts;
use super::shared::{ConnectionControl, Shared};
use crate::Ending;
use crate::toxic::{Flow, Pacing, Chunk, Payload};

/// No more than this waits for its time. Beyond it the sender is not read, and feels it.
const WAITING: usize = 1 << 20;
const AT_ONCE: usize = 64 << 10;

/// Why a direction ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A toxic cut it.
    Cut(Ending),
    /// A peer reset it, or could not be written to.
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

    /// Carries until the sender has ended and the receiver knows.
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
                // The receiver is not told, so the connection stays until it is ended by others or by its other half.
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

    /// Bytes have come.
    fn take(&mut self, bytes: Bytes) {
        self.record(|counts| counts.read += bytes.len() as u64);
        let chunk = Chunk { due: Instant::now(), payload: Payload::Bytes(bytes) };
        for mut chunk in self.shared.apply_toxics(self.direction, &mut self.pacings, chunk) {
            // Bytes do not overtake each other, whatever a toxic that has gone had promised to those before.
            chunk.due = self.waiting.back().map_or(chunk.due, |last| chunk.due.max(last.due));
            self.waiting_bytes += length(&chunk);
            self.waiting.push_back(chunk);
        }
    }

    /// The sender has ended.
    fn take_end(&mut self) {
        self.has_ended = true;
        self.record(|counts| counts.ends += 1);
        let last = self.waiting.back().map_or_else(Instant::now, |last| last.due);
        let due = last.max(Instant::now() + self.shared.end_delay(self.direction));
        self.waiting.push_back(Chunk { due, payload: Payload::End });
    }

    /// The first parcel has its time.
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
                // A receiver that has gone needs no end.
                let _ = to.shutdown().await;
                Ok(Delivered::Last)
            }
            Payload::Cut(ending) => Err(Broken::Cut(ending)),
        }
    }

    /// What waits will never arrive.
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

/// What was delivered.
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

/// Reads and forgets until the sender ends.
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
