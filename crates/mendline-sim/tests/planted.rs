//! The checkers are proven to see: every planted defect is caught, and the copy without any is clean.

use mendline_sim::{cli, defect, machine::EngineKind};

/// Within how many seeds a defect must be caught.
const SEEDS: u64 = 1_000;

#[test]
fn every_planted_defect_is_caught_within_a_thousand_seeds() {
    let mut missed = Vec::new();
    for planted in defect::ALL {
        match defect::hunt(planted.number, 0..SEEDS) {
            Some((seed, violation)) => {
                println!(
                    "{:02} {} — caught by {} at seed {seed}: {}",
                    planted.number, planted.name, violation.invariant, violation.text
                );
            }
            None => missed.push(planted.name),
        }
    }
    assert!(missed.is_empty(), "no check objects to: {missed:?}");
    assert!(defect::ALL.len() >= 12, "only {} defects are planted", defect::ALL.len());
}

#[test]
fn the_copy_without_a_defect_is_clean_on_the_same_seeds() {
    let failed = cli::run_many(0, SEEDS, EngineKind::Planted(0), 2).failed;
    assert!(failed.is_none(), "seed {:?}", failed.map(|report| (report.seed, report.violation)));
}

#[test]
fn the_copy_without_a_defect_lives_every_seed_as_the_engine_does() {
    for seed in 0..50 {
        let engine = mendline_sim::run::run(seed, EngineKind::Engine, false);
        let copy = mendline_sim::run::run(seed, EngineKind::Planted(0), false);
        assert_eq!(engine.number, copy.number, "seed {seed}");
    }
}
