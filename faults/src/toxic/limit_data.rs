//! Limit data: ends the connection after a number of bytes in this direction.

use serde::{Deserialize, Serialize};

use super::{Behaviour, Chunk, Pacing, Payload};
use crate::Ending;

/// Ends the connection after a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitData {
    /// The number of bytes for each connection.
    pub bytes: u64,
    /// The way in which the connection ends, on both sides.
    pub ending: Ending,
}

impl Behaviour for LimitData {
    fn pass(&self, pacing: &mut Pacing, chunk: Chunk) -> Vec<Chunk> {
        let Chunk { due, payload: Payload::Bytes(bytes) } = chunk else { return vec![chunk] };
        let left = usize::try_from(self.bytes.saturating_sub(pacing.passed)).unwrap_or(usize::MAX);
        let allowed = bytes.slice(..left.min(bytes.len()));
        pacing.passed += allowed.len() as u64;
        let mut chunks = Vec::new();
        if !allowed.is_empty() {
            chunks.push(Chunk { due, payload: Payload::Bytes(allowed) });
        }
        if pacing.passed == self.bytes {
            chunks.push(Chunk { due, payload: Payload::Cut(self.ending) });
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::super::{chunk, seen};
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn connection_is_cut_at_the_exact_byte() {
        let (now, mut pacing) = (Instant::now(), Pacing::default());
        let limit = LimitData { bytes: 3, ending: Ending::Fin };
        assert_eq!(seen(now, &limit.pass(&mut pacing, chunk(now, "ab"))), [("ab".to_owned(), 0)]);
        let last = limit.pass(&mut pacing, chunk(now, "cd"));
        assert_eq!(seen(now, &last), [("c".to_owned(), 0), ("Cut(Fin)".to_owned(), 0)]);
        let exact = LimitData { bytes: 2, ending: Ending::Reset }.pass(&mut Pacing::default(), chunk(now, "ab"));
        assert_eq!(seen(now, &exact), [("ab".to_owned(), 0), ("Cut(Reset)".to_owned(), 0)]);
    }
}
