//! Limit data: so many bytes pass in this direction, and at that byte the connection ends.

use serde::{Deserialize, Serialize};

use super::{Memory, Parcel, Behaviour, What};
use crate::Ending;

/// The connection ends after so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitData {
    /// How many, of each connection.
    pub bytes: u64,
    /// How it ends, on both sides.
    pub ending: Ending,
}

impl Behaviour for LimitData {
    fn pass(&self, memory: &mut Memory, parcel: Parcel) -> Vec<Parcel> {
        let Parcel { due, what: What::Bytes(bytes) } = parcel else { return vec![parcel] };
        let left = usize::try_from(self.bytes.saturating_sub(memory.passed)).unwrap_or(usize::MAX);
        let allowed = bytes.slice(..left.min(bytes.len()));
        memory.passed += allowed.len() as u64;
        let mut parcels = Vec::new();
        if !allowed.is_empty() {
            parcels.push(Parcel { due, what: What::Bytes(allowed) });
        }
        if memory.passed == self.bytes {
            parcels.push(Parcel { due, what: What::Cut(self.ending) });
        }
        parcels
    }
}

#[cfg(test)]
mod tests {
    use super::super::{parcel, seen};
    use super::*;
    use tokio::time::Instant;

    #[test]
    fn the_cut_is_at_the_byte() {
        let (now, mut memory) = (Instant::now(), Memory::default());
        let limit = LimitData { bytes: 3, ending: Ending::Fin };
        assert_eq!(seen(now, &limit.pass(&mut memory, parcel(now, "ab"))), [("ab".to_owned(), 0)]);
        let last = limit.pass(&mut memory, parcel(now, "cd"));
        assert_eq!(seen(now, &last), [("c".to_owned(), 0), ("Cut(Fin)".to_owned(), 0)]);
        let exact = LimitData { bytes: 2, ending: Ending::Reset }.pass(&mut Memory::default(), parcel(now, "ab"));
        assert_eq!(seen(now, &exact), [("ab".to_owned(), 0), ("Cut(Reset)".to_owned(), 0)]);
    }
}
