//! Runs 500 seeds in every test run and checks their coverage. `cargo xtask sim --seeds 10000` runs more.

use mendline_sim::cli;
use mendline_sim::machine::EngineKind;

#[test]
fn seeds_keep_invariants_and_cover_faults_and_transitions() {
    let cli::Summary { failed, coverage, .. } = cli::run_many(0, 500, EngineKind::Engine, 2);
    if let Some(report) = failed {
        let violation = report.violation.map(|violation| violation.to_string()).unwrap_or_default();
        panic!("{violation}\nreproduce: cargo xtask sim --seed {} --log", report.seed);
    }
    assert!(coverage.missing().is_empty(), "never visited: {:?}\n{coverage}", coverage.missing());
    assert!(coverage.unexpected().is_empty(), "transitions that are not listed: {:?}", coverage.unexpected());
    assert!(coverage.deaths_within_a_line > 0, "no child died with a line accepted in part");
    assert!(coverage.silent > 0 && coverage.repeated > 0, "no silent call, or none that was sent once more");
    for how in [("cut", "partly written"), ("cut", "wholly written"), ("no connection", "nothing written")] {
        assert!(coverage.exchanges.contains_key(&how), "no exchange ended like this: {how:?}\n{coverage}");
    }
}
