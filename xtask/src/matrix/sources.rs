//! Finds tests: functions of test files and modules, and files of the simulation.

use std::fs;
use std::path::{Path, PathBuf};

use super::names::Names;
use crate::command::root;

/// Tests with real processes and sockets.
const REAL: &[&str] =
    &["crates/mendline-cli/tests", "crates/mendline-oauth/tests", "tests/tests", "faults/tests", "bench/tests"];

/// Tests of library crates through their public interfaces.
const CRATES: &[&str] = &[
    "crates/mendline-wire/tests",
    "crates/mendline-core/tests",
    "crates/mendline-config/tests",
    "crates/mendline/tests",
];

/// Simulated faults and checkers, one per file.
const SIMULATED: &[&str] = &["crates/mendline-sim/src/fault", "crates/mendline-sim/src/check"];

/// Scenarios of the simulation, one per file.
const SCENARIOS: &str = "crates/mendline-sim/scenarios";

/// Test functions of the simulation.
const SIMULATION: &str = "crates/mendline-sim/tests";

/// Folders whose members have modules with unit tests.
const MEMBERS: &[&str] = &["crates", "tests", "faults", "xtask", "bench"];

/// All tests by level.
#[derive(Default)]
pub struct Sources {
    /// Unit tests beside the code.
    pub unit: Names,
    /// Tests of library crates.
    pub crates: Names,
    /// Faults, checkers, scenarios and tests of the simulation.
    pub simulated: Names,
    /// Tests with real processes.
    pub real: Names,
}

impl Sources {
    /// Reads the workspace.
    pub fn read() -> Result<Self, String> {
        let mut sources = Self::default();
        for member in MEMBERS {
            for folder in source_folders(&root().join(member))? {
                functions(&folder, &mut sources.unit)?;
            }
        }
        for folder in CRATES {
            functions(&root().join(folder), &mut sources.crates)?;
        }
        for folder in SIMULATED {
            stems(&root().join(folder), "rs", &mut sources.simulated)?;
        }
        stems(&root().join(SCENARIOS), "txt", &mut sources.simulated)?;
        functions(&root().join(SIMULATION), &mut sources.simulated)?;
        for folder in REAL {
            functions(&root().join(folder), &mut sources.real)?;
        }
        Ok(sources)
    }

    /// Returns each level with its name on the pages.
    pub fn levels(&self) -> [(&'static str, &Names); 4] {
        [("unit", &self.unit), ("crate", &self.crates), ("simulation", &self.simulated), ("processes", &self.real)]
    }
}

/// Returns `src` of a package, or of each package in a folder of packages.
fn source_folders(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.file_name().is_some_and(|name| name == "src") {
            found.push(path);
        } else if path.join("Cargo.toml").is_file() && path.join("src").is_dir() {
            found.push(path.join("src"));
        }
    }
    Ok(found)
}

/// Adds the names of the files with this extension.
fn stems(folder: &Path, ending: &str, names: &mut Names) -> Result<(), String> {
    for path in files(folder, ending)? {
        if let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) {
            names.add(stem);
        }
    }
    Ok(())
}

/// Adds the test functions of all files in a folder.
fn functions(folder: &Path, names: &mut Names) -> Result<(), String> {
    for path in files(folder, "rs")? {
        tests_of(&read(&path)?).for_each(|name| names.add(name));
    }
    Ok(())
}

/// Returns the test functions of a Rust file.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().map(str::trim).filter_map(move |line| {
        if line.starts_with("//") {
            return None;
        }
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.contains("::test");
            return None;
        }
        let (_, rest) = line.split_once("fn ")?;
        let (name, _) = rest.split_once('(')?;
        std::mem::take(&mut is_test).then_some(name)
    })
}

fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            found.extend(files(&path, ending)?);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_with_a_test_attribute_are_found() {
        let text = [
            "fn r01_helper() {}",
            "#[test]",
            "// a comment with fn inside(",
            "fn r02_test() {}",
            "#[tokio::test(flavor = \"current_thread\")]",
            "#[ignore = \"slow\"]",
            "async fn r03_test() {}",
            "fn r04_helper() {}",
            "proptest! {",
            "    #[test]",
            "    fn r05_property(text in any::<String>()) {}",
        ];
        let text = text.join("\n");
        assert_eq!(tests_of(&text).collect::<Vec<_>>(), ["r02_test", "r03_test", "r05_property"]);
    }

    #[test]
    fn tests_of_every_level_are_found() {
        let sources = Sources::read().unwrap();
        assert!(!sources.real.of("P54").is_empty());
        assert!(!sources.simulated.of("P54").is_empty());
        let here = source_folders(&root().join("xtask")).unwrap();
        assert_eq!(here, [root().join("xtask/src")]);
        let crates = source_folders(&root().join("crates")).unwrap();
        assert!(crates.contains(&root().join("crates/mendline-core/src")), "{crates:?}");
    }
}
