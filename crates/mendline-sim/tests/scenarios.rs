//! Every scenario produces its recorded output. `MENDLINE_RECORD=1 cargo test -p mendline-sim --test scenarios` records
//! it again.

use std::fs;
use std::path::Path;

use mendline_sim::scenario;

#[test]
fn every_scenario_produces_its_recorded_output() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 8, "only {} scenarios", paths.len());
    let record = std::env::var_os("MENDLINE_RECORD").is_some();
    let mut changed = Vec::new();
    for path in paths {
        let recorded = fs::read_to_string(&path).unwrap();
        let produced = scenario::play(&recorded).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        assert!(!produced.contains("BROKEN "), "{} breaks an invariant:\n{produced}", path.display());
        if produced == recorded {
            continue;
        }
        if record {
            fs::write(&path, &produced).unwrap();
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            changed.push(format!("{name}\n{}", first_difference(&recorded, &produced)));
        }
    }
    assert!(
        changed.is_empty(),
        "these scenarios differ from their recordings; review them and run with MENDLINE_RECORD=1:\n{}",
        changed.join("\n")
    );
}

fn first_difference(recorded: &str, produced: &str) -> String {
    let mut pairs = recorded.lines().zip(produced.lines()).enumerate();
    match pairs.find(|(_, (was, is))| was != is) {
        Some((line, (was, is))) => format!("  line {}\n  recorded: {was}\n  produced: {is}", line + 1),
        None => {
            format!("  {} lines were recorded, {} were produced", recorded.lines().count(), produced.lines().count())
        }
    }
}
