//! Slicer: passes the same bytes in small pieces, so that no read returns a whole frame.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Behaviour, Chunk, Pacing, slice};

/// Passes bytes in small pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slicer {
    /// The length of a piece.
    pub bytes: usize,
    /// The pause between two pieces in milliseconds.
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
    fn last_piece_holds_the_remainder() {
        let (now, mut pacing) = (Instant::now(), Pacing::default());
        let pieces = Slicer { bytes: 2, gap_ms: 3 }.pass(&mut pacing, chunk(now, "abcde"));
        assert_eq!(seen(now, &pieces), [("ab".to_owned(), 0), ("cd".to_owned(), 3), ("e".to_owned(), 6)]);
        let pieces = Slicer { bytes: 0, gap_ms: 0 }.pass(&mut Pacing::default(), chunk(now, "ab"));
        assert_eq!(pieces.len(), 2, "a piece has at least one byte");
    }
}
