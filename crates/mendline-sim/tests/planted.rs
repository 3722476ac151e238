//! Every planted defect is detected, and the copy without a defect passes.

use mendline_sim::{cli, defect, machine::EngineKind};

/// Number of seeds within which a defect must be detected.
const SEEDS: u64 = 1_000;

#[test]
fn every_planted_defect_is_detected_within_1000_seeds() {
    let mut missed = Vec::new();
    for planted in defect::ALL {
        match defect::hunt(planted.number, 0..SEEDS) {
            Some((seed, violation)) => {
                println!(
                    "{:02} {} — detected by {} at seed {seed}: {}",
                    planted.number, planted.name, violation.invariant, violation.text
                );
            }
            None => missed.push(planted.name),
        }
    }
    assert!(missed.is_empty(), "not detected: {missed:?}");
    assert!(defect::ALL.len() >= 12, "only {} defects are planted", defect::ALL.len());
}

#[test]
fn copy_without_defect_passes_the_same_seeds() {
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
