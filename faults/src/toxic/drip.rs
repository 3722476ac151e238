//! Drip: passes one byte at a time with a pause after each, so that the connection is never silent and never done.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Behaviour, Chunk, Pacing, slice};

/// Passes one byte at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Drip {
    /// The pause between two bytes in milliseconds.
    pub ms: u64,
}

impl Behaviour for Drip {
    fn pass(&self, pacing: &mut Pacing, chunk: Chunk) -> Vec<Chunk> {
        slice(pacing, chunk, 1, |_| Duration::from_millis(self.ms))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{chunk, seen};
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn bytes_pass_one_by_one_across_chunks() {
        let (now, mut pacing) = (Instant::now(), Pacing::default());
        let drip = Drip { ms: 10 };
        let mut pieces = drip.pass(&mut pacing, chunk(now, "ab"));
        pieces.extend(drip.pass(&mut pacing, chunk(now, "c")));
        assert_eq!(seen(now, &pieces), [("a".to_owned(), 0), ("b".to_owned(), 10), ("c".to_owned(), 20)]);
    }
}
