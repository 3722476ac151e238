//! The defects that are planted into the copy of the core, and how they are looked for.
//!
//! A checker that has never seen anything proves nothing. Each file in `defects/` is one mistake that a person could make in
//! the core; within a thousand seeds at least one check must object to it. Without a defect awake the copy is the core, and
//! the same seeds must be clean.

use crate::check::Violation;
use crate::machine::EngineKind;
use crate::run;

/// One planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Its number, which wakes it.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// What the mistake is.
    pub prose: &'static str,
}

/// All of them, in the order of their numbers.
pub const ALL: &[Defect] = include!(concat!(env!("OUT_DIR"), "/defects.rs"));

/// The first of these seeds at which a check objects to this defect, and its objection. A seed at which it would object to
/// the copy without the defect as well proves nothing and does not count.
pub fn hunt(defect: u32, seeds: std::ops::Range<u64>) -> Option<(u64, Violation)> {
    seeds.into_iter().find_map(|seed| {
        let violation = run::run_and_compare(seed, EngineKind::Planted(defect)).violation?;
        let innocent = run::run_and_compare(seed, EngineKind::Planted(0)).violation;
        innocent.is_none().then_some((seed, violation))
    })
}
