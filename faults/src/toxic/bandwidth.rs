//! Bandwidth: limits the bytes per second, evenly.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Behaviour, Chunk, Pacing, slice};

/// The number of pieces per second, so that bytes arrive evenly and not in bursts.
const PIECES: u64 = 20;
const NANOS: u64 = 1_000_000_000;

/// Limits the bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bandwidth {
    /// The limit.
    pub bytes_per_second: u64,
}

impl Behaviour for Bandwidth {
    fn pass(&self, pacing: &mut Pacing, chunk: Chunk) -> Vec<Chunk> {
        let rate = self.bytes_per_second.max(1);
        let size = usize::try_from(rate / PIECES).unwrap_or(usize::MAX);
        slice(pacing, chunk, size, |bytes| Duration::from_nanos((bytes as u64).saturating_mul(NANOS) / rate))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{chunk, seen};
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn next_chunk_waits_for_the_bytes_before() {
        let (now, mut pacing) = (Instant::now(), Pacing::default());
        let line = Bandwidth { bytes_per_second: 40 };
        let first = line.pass(&mut pacing, chunk(now, "abcd"));
        let second = line.pass(&mut pacing, chunk(now, "e"));
        assert_eq!(seen(now, &first), [("ab".to_owned(), 0), ("cd".to_owned(), 50)]);
        assert_eq!(seen(now, &second), [("e".to_owned(), 100)]);
    }
}
