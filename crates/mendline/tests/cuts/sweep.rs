//! The choice of the bytes that are cut.
//!
//! A conversation without a fault shows the number of bytes and the boundaries of its messages. [`Coverage::Every`]
//! cuts every byte. [`Coverage::Sample`] cuts every byte of a short conversation; of a longer one it cuts evenly spread
//! bytes and those near a boundary. Each kind of fault starts at another offset, so that together they miss fewer
//! bytes. Conversations with TLS cost ten times as much and have a smaller sample.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use super::conversation::Conversation;
use super::faulty_stream::{Direction, Fault, Kind};
use super::report::Report;

/// Up to this number of bytes in one direction, the sample is complete.
const SHORT: usize = 600;
/// The number of evenly spread bytes in a longer conversation.
const SPREAD: usize = 130;
/// The number of bytes on both sides of a boundary.
const NEAR: usize = 1;
/// The number of spread bytes in a conversation with TLS.
const SPREAD_SECURE: usize = 40;
/// The distance of drip faults. Dripping has the same effect from any byte, so few offsets suffice.
const DRIPS: usize = 97;

/// The share of the bytes that are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    Every,
    Sample,
    One(usize),
}

/// Cuts one conversation with these kinds of faults, on all processors.
pub fn sweep(conversation: &Conversation, kinds: &[(&str, Kind, Direction)], coverage: Coverage) -> Report {
    let plain = conversation.hold(None);
    let mut report = Report::default();
    report.add(conversation.name, None, &plain);
    let faults: Vec<Fault> = kinds
        .iter()
        .enumerate()
        .flat_map(|(offset, &(_, kind, direction))| {
            let carried = if direction == Direction::Up { &plain.up } else { &plain.down };
            let bytes = match coverage {
                Coverage::Every => (0..=carried.0).collect(),
                Coverage::One(at) => BTreeSet::from([at]),
                Coverage::Sample if kind == Kind::Drip => (0..carried.0).step_by(DRIPS).collect(),
                Coverage::Sample => sample(carried, offset, plain.wire.is_secure()),
            };
            bytes.into_iter().map(move |at| Fault { kind, direction, at })
        })
        .collect();
    let (left, tallied) = (Mutex::new(faults.into_iter()), Mutex::new(report));
    let cut = || {
        loop {
            let Some(fault) = left.lock().unwrap().next() else { return };
            let observed = conversation.hold(Some(fault));
            tallied.lock().unwrap().add(conversation.name, Some(fault), &observed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(cut);
        }
        cut();
    });
    tallied.into_inner().unwrap()
}

/// Returns the sample of the bytes of one direction.
fn sample((total, seams): &(usize, Vec<usize>), offset: usize, is_secure: bool) -> BTreeSet<usize> {
    let (short, spread, near) = if is_secure { (0, SPREAD_SECURE, 0) } else { (SHORT, SPREAD, NEAR) };
    if *total <= short {
        return (0..=*total).collect();
    }
    let stride = total.div_ceil(spread).max(1);
    let spread = (offset % stride..=*total).step_by(stride);
    let at_seams = seams.iter().flat_map(|seam| seam.saturating_sub(near)..=(seam + near).min(*total));
    spread.chain(at_seams).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_conversation_is_cut_everywhere_and_long_one_sampled() {
        assert_eq!(sample(&(100, vec![50]), 0, false).len(), 101);
        let long = sample(&(10_000, vec![5_000]), 3, false);
        assert!((4_999..=5_001).all(|at| long.contains(&at)), "{long:?}");
        assert!((SPREAD..2 * SPREAD).contains(&long.len()), "{}", long.len());
        let secure = sample(&(3_000, vec![1_500]), 0, true);
        assert!(secure.contains(&1_500) && secure.len() < 2 * SPREAD_SECURE, "{secure:?}");
    }

    #[test]
    fn each_fault_kind_starts_at_another_offset() {
        let stride: BTreeSet<usize> =
            (0..7).map(|offset| *sample(&(2_000, Vec::new()), offset, false).first().unwrap()).collect();
        assert_eq!(stride.len(), 7);
    }
}
