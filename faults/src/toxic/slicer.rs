//! Slicer: the same bytes in small pieces, so that no reader finds a frame whole.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Pacing, Chunk, Behaviour, slice};

/// What passes arrives in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slicer {
    /// How long a piece is.
    pub bytes: usize,
    /// How many milliseconds lie between two.
    #[serde(default)]
    pub gap_ms: u64,
}

impl Behaviour for Slicer {
    fn pass(&self, pacing: &mut Pacing, chunk: Chunk) -> Vec<Chunk> {
        slice(pacing, chunk, self.bytes, |_| Duration::from_millis(self.gap_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{chunk, seen};
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn the_last_piece_is_what_is_left() {
        let (now, mut pacing) = (Instant::now(), Pacing::default());
        let pieces = Slicer { bytes: 2, gap_ms: 3 }.pass(&mut pacing, chunk(now, "abcde"));
        assert_eq!(seen(now, &pieces), [("ab".to_owned(), 0), ("cd".to_owned(), 3), ("e".to_owned(), 6)]);
        let pieces = Slicer { bytes: 0, gap_ms: 0 }.pass(&mut Pacing::default(), chunk(now, "ab"));
        assert_eq!(pieces.len(), 2, "a piece has at least one byte");
    }
}
