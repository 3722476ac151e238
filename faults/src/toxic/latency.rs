//! Latency: delays everything by the same time, without queueing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Behaviour, Chunk, Pacing};

/// Delays everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Latency {
    /// The delay in milliseconds.
    pub ms: u64,
}

impl Behaviour for Latency {
    fn pass(&self, _: &mut Pacing, mut chunk: Chunk) -> Vec<Chunk> {
        chunk.due += Duration::from_millis(self.ms);
        vec![chunk]
    }

    fn end_delay(&self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{chunk, seen};
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn each_chunk_is_delayed_independently() {
        let (now, mut pacing) = (Instant::now(), Pacing::default());
        let latency = Latency { ms: 100 };
        let first = latency.pass(&mut pacing, chunk(now, "a"));
        let second = latency.pass(&mut pacing, chunk(now + Duration::from_millis(10), "b"));
        assert_eq!(seen(now, &first), [("a".to_owned(), 100)]);
        assert_eq!(seen(now, &second), [("b".to_owned(), 110)]);
    }
}
