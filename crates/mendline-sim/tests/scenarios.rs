//! Every scenario comes out as it is recorded. `MENDLINE_RECORD=1 cargo test -p mendline-sim --test scenarios` records anew.

use std::fs;
use std::path::Path;

use mendline_sim::scenario;

#[test]
fn every_scenario_comes_out_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 8, "only {} scenarios", paths.len());
    let record = std::env::var_os("MENDLINE_RECORD").is_some();
    let mut changed = Vec::new();
    for path in paths {
        let recorded = fs::read_to_string(&path).unwrap();
        let came_out = scenario::play(&recorded).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        assert!(!came_out.contains("BROKEN "), "{} breaks a promise:\n{came_out}", path.display());
        if came_out == recorded {
            continue;
        }
        if record {
            fs::write(&path, &came_out).unwrap();
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            changed.push(format!("{name}\n{}", first_difference(&recorded, &came_out)));
        }
    }
    assert!(changed.is_empty(), "came out otherwise than recorded:\n{}", changed.join("\n"));
}

fn first_difference(recorded: &str, came_out: &str) -> String {
    let mut pairs = recorded.lines().zip(came_out.lines()).enumerate();
    match pairs.find(|(_, (was, is))| was != is) {
        Some((line, (was, is))) => format!("  line {}\n  recorded: {was}\n  came out: {is}", line + 1),
        None => format!("  {} lines were recorded, {} came out", recorded.lines().count(), came_out.lines().count()),
    }
}
