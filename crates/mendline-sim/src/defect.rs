//! The planted defects and the search for a seed that detects each.
//!
//! A checker that never fails proves nothing. Each file in `defects/` is one realistic mistake in the core; at least
//! one check must detect it within a thousand seeds. Without an active defect the copy equals the core, and the same
//! seeds must pass.

use crate::check::Violation;
use crate::machine::EngineKind;
use crate::run;

/// A planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
}

/// All defects, by number.
pub const ALL: &[Defect] = include!(concat!(env!("OUT_DIR"), "/defects.rs"));

/// Returns the first seed at which a check detects this defect, and the violation. A seed that also fails without the
/// defect does not count.
pub fn hunt(defect: u32, seeds: std::ops::Range<u64>) -> Option<(u64, Violation)> {
    seeds.into_iter().find_map(|seed| {
        let violation = run::run_and_compare(seed, EngineKind::Planted(defect)).violation?;
        let innocent = run::run_and_compare(seed, EngineKind::Planted(0)).violation;
        innocent.is_none().then_some((seed, violation))
    })
}
