//! Seeds that once broke an invariant run in every test run. Each has a file: its name is the seed, its text describes
//! the failure.

use std::fs;
use std::path::Path;

use mendline_sim::machine::EngineKind;
use mendline_sim::run;

#[test]
fn regression_seeds_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let seed: u64 = path.file_stem().unwrap().to_str().unwrap().parse().expect("the file is named after its seed");
        let report = run::run_and_compare(seed, EngineKind::Engine);
        assert!(report.violation.is_none(), "seed {seed}: {}", report.violation.unwrap());
        count += 1;
    }
    assert!(count > 0, "regressions/ has no files");
}
