//! Toxics: what the proxy does to bytes and connections, one file each.
//!
//! A toxic applies to one direction of the proxy or to both. Some delay or slice bytes ([`Latency`], [`Bandwidth`],
//! [`Slicer`], [`Drip`]), some end connections ([`LimitData`], [`SlowClose`], [`Reset`]), some stop them
//! ([`Partition`], [`Unplugged`], [`HalfOpen`], [`BlackHole`]), and some refuse new ones ([`Refuse`], [`Flap`]). A
//! toxic computes due times from the time it is given. It never waits and uses no random numbers.

mod bandwidth;
mod black_hole;
mod drip;
mod flap;
mod half_open;
mod latency;
mod limit_data;
mod partition;
mod refuse;
mod reset;
mod slicer;
mod slow_close;
mod unplugged;

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use bandwidth::Bandwidth;
pub use black_hole::BlackHole;
pub use drip::Drip;
pub use flap::Flap;
pub use half_open::HalfOpen;
pub use latency::Latency;
pub use limit_data::LimitData;
pub use partition::Partition;
pub use refuse::Refuse;
pub use reset::Reset;
pub use slicer::Slicer;
pub use slow_close::SlowClose;
pub use unplugged::Unplugged;

use crate::Ending;

/// One toxic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "toxic", rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is documented where it is defined")]
pub enum Toxic {
    Latency(Latency),
    Bandwidth(Bandwidth),
    Slicer(Slicer),
    Drip(Drip),
    LimitData(LimitData),
    SlowClose(SlowClose),
    BlackHole(BlackHole),
    HalfOpen(HalfOpen),
    Partition(Partition),
    Unplugged(Unplugged),
    Reset(Reset),
    Refuse(Refuse),
    Flap(Flap),
}

/// The name of every toxic, its row in the fault matrix and what it does.
pub const ALL: &[(&str, &str, &str)] = &[
    ("latency", "T19", "Everything arrives `ms` later."),
    ("bandwidth", "T20", "At most `bytesPerSecond` pass."),
    ("slicer", "T21", "Bytes arrive in pieces of `bytes`, `gapMs` apart."),
    ("drip", "", "One byte passes every `ms`."),
    ("limit_data", "T22", "The connection ends after `bytes`, by `fin` or `reset`."),
    ("slow_close", "T23", "The end of a connection is passed on `ms` later."),
    ("black_hole", "N06", "Connections are accepted and nothing passes, also after its removal."),
    ("half_open", "", "Open connections go silent for good; new ones work."),
    ("partition", "T17, T18", "Nothing passes while it is installed; nothing is lost."),
    ("unplugged", "T16", "Open connections lose all packets, including probes; new ones work."),
    ("reset", "T13", "All connections are reset, including new ones."),
    ("refuse", "N05", "New connections are refused; open ones stay."),
    ("flap", "T24", "Alternates: down for `downMs` (all reset, new ones refused), up for `upMs`."),
];

/// Bytes, or the end of a direction, on their way through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The earliest time at which it is delivered.
    pub(crate) due: Instant,
    pub(crate) payload: Payload,
}

/// The contents of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Bytes(Bytes),
    /// The sender has closed its side.
    End,
    /// The connection is cut here.
    Cut(Ending),
}

/// The state of a toxic for one direction of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacing {
    /// The number of bytes that passed.
    passed: u64,
    /// The time at which the next piece can be sent.
    free: Option<Instant>,
}

impl Pacing {
    /// Reserves the direction for `busy` and returns the time at which the piece can be sent.
    fn take(&mut self, due: Instant, busy: Duration) -> Instant {
        let start = self.free.map_or(due, |free| free.max(due));
        self.free = Some(start + busy);
        start
    }
}

/// The flow of bytes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flow {
    /// Bytes pass.
    Pass,
    /// Nothing is read and nothing is lost.
    Hold,
    /// Nothing passes again, even after the toxic is removed.
    Dead,
}

/// The treatment of new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AcceptMode {
    /// They are accepted.
    Accept,
    /// They are accepted and reset.
    Reset,
    /// They are refused.
    Refuse,
}

/// The behaviour of a toxic. It depends on the arguments only.
pub(crate) trait Behaviour {
    /// Transforms a chunk of bytes.
    fn pass(&self, pacing: &mut Pacing, chunk: Chunk) -> Vec<Chunk> {
        let _ = pacing;
        vec![chunk]
    }

    /// The delay before the end of a direction is passed on.
    fn end_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// The flow of bytes while the toxic is installed.
    fn flow(&self) -> Flow {
        Flow::Pass
    }

    /// Returns whether packets of the client are dropped before the kernel acknowledges them.
    fn drops_packets(&self) -> bool {
        false
    }

    /// The treatment of new connections at this time after the installation, and how long it stays the same.
    fn accept_mode(&self, elapsed: Duration) -> (AcceptMode, Option<Duration>) {
        let _ = elapsed;
        (AcceptMode::Accept, None)
    }

    /// The treatment of open connections when the toxic is installed, and when it begins to refuse new ones.
    fn on_existing(&self) -> ExistingConnections {
        ExistingConnections::Keep
    }
}

/// The treatment of open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingConnections {
    Keep,
    /// They go silent without an error.
    Silence,
    /// They are reset.
    Reset,
}

impl Toxic {
    /// The name of the toxic.
    pub fn name(&self) -> &'static str {
        match self {
            Toxic::Latency(_) => "latency",
            Toxic::Bandwidth(_) => "bandwidth",
            Toxic::Slicer(_) => "slicer",
            Toxic::Drip(_) => "drip",
            Toxic::LimitData(_) => "limit_data",
            Toxic::SlowClose(_) => "slow_close",
            Toxic::BlackHole(_) => "black_hole",
            Toxic::HalfOpen(_) => "half_open",
            Toxic::Partition(_) => "partition",
            Toxic::Unplugged(_) => "unplugged",
            Toxic::Reset(_) => "reset",
            Toxic::Refuse(_) => "refuse",
            Toxic::Flap(_) => "flap",
        }
    }

    pub(crate) fn behaviour(&self) -> &dyn Behaviour {
        match self {
            Toxic::Latency(toxic) => toxic,
            Toxic::Bandwidth(toxic) => toxic,
            Toxic::Slicer(toxic) => toxic,
            Toxic::Drip(toxic) => toxic,
            Toxic::LimitData(toxic) => toxic,
            Toxic::SlowClose(toxic) => toxic,
            Toxic::BlackHole(toxic) => toxic,
            Toxic::HalfOpen(toxic) => toxic,
            Toxic::Partition(toxic) => toxic,
            Toxic::Unplugged(toxic) => toxic,
            Toxic::Reset(toxic) => toxic,
            Toxic::Refuse(toxic) => toxic,
            Toxic::Flap(toxic) => toxic,
        }
    }
}

/// Cuts a chunk into pieces of at most `size` bytes, each of which reserves the direction for a while.
fn slice(pacing: &mut Pacing, chunk: Chunk, size: usize, busy: impl Fn(usize) -> Duration) -> Vec<Chunk> {
    let Chunk { due, payload: Payload::Bytes(mut bytes) } = chunk else { return vec![chunk] };
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let piece = bytes.split_to(size.clamp(1, bytes.len()));
        let due = pacing.take(due, busy(piece.len()));
        pieces.push(Chunk { due, payload: Payload::Bytes(piece) });
    }
    pieces
}

#[cfg(test)]
fn chunk(due: Instant, text: &'static str) -> Chunk {
    Chunk { due, payload: Payload::Bytes(Bytes::from_static(text.as_bytes())) }
}

/// The texts and delays of chunks, for assertions.
#[cfg(test)]
fn seen(since: Instant, chunks: &[Chunk]) -> Vec<(String, u64)> {
    let text = |payload: &Payload| match payload {
        Payload::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let delay = |due: Instant| u64::try_from((due - since).as_millis()).unwrap_or(u64::MAX);
    chunks.iter().map(|chunk| (text(&chunk.payload), delay(chunk.due))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_toxic_is_listed_and_read_from_json() {
        let texts = [
            r#"{"toxic":"latency","ms":5}"#,
            r#"{"toxic":"bandwidth","bytesPerSecond":5}"#,
            r#"{"toxic":"slicer","bytes":1,"gapMs":0}"#,
            r#"{"toxic":"drip","ms":5}"#,
            r#"{"toxic":"limit_data","bytes":5,"ending":"fin"}"#,
            r#"{"toxic":"slow_close","ms":5}"#,
            r#"{"toxic":"black_hole"}"#,
            r#"{"toxic":"half_open"}"#,
            r#"{"toxic":"partition"}"#,
            r#"{"toxic":"unplugged"}"#,
            r#"{"toxic":"reset"}"#,
            r#"{"toxic":"refuse"}"#,
            r#"{"toxic":"flap","downMs":5,"upMs":5}"#,
        ];
        assert_eq!(texts.len(), ALL.len());
        for (text, (name, ..)) in texts.iter().zip(ALL) {
            let toxic: Toxic = serde_json::from_str(text).unwrap();
            assert_eq!(toxic.name(), *name);
        }
        assert!(serde_json::from_str::<Toxic>(r#"{"toxic":"kindness"}"#).is_err());
    }
}
