//! The crates that a program contains, from `cargo metadata` and the lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml_edit::{Document, Item};

use super::files;
use crate::command::{CommandLine, root};

/// A crate in the program.
#[derive(Clone, Debug)]
pub(crate) struct Crate {
    /// The name.
    pub(crate) name: String,
    /// The version.
    pub(crate) version: String,
    /// The licence expression.
    pub(crate) licence: String,
    /// The folder of its sources.
    pub(crate) folder: PathBuf,
    /// True for a crate of this workspace.
    pub(crate) is_ours: bool,
    /// The SHA-256 of its archive on crates.io.
    pub(crate) checksum: Option<String>,
    /// The crates that it uses, as name and version.
    pub(crate) uses: BTreeSet<(String, String)>,
}

/// Returns the crates of the program, those of this workspace included, in the order of their names.
pub(crate) fn all(triple: &str) -> Result<Vec<Crate>, String> {
    let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", triple];
    let printed = CommandLine::cargo(&args).output()?;
    let metadata: Value = serde_json::from_str(&printed).map_err(|why| format!("cargo metadata: {why}"))?;
    let checksums = checksums(&files::read(&root().join("Cargo.lock"))?)?;
    reachable(&metadata, "mendline-cli", &checksums).ok_or_else(|| "cargo metadata has an unknown form".into())
}

/// Returns the crates that a package needs at run time, itself included.
fn reachable(metadata: &Value, start: &str, checksums: &BTreeMap<(String, String), String>) -> Option<Vec<Crate>> {
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> =
        metadata["resolve"]["nodes"].as_array()?.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let mut waiting = vec![*packages.iter().find(|(_, package)| package["name"] == start)?.0];
    let mut found = BTreeMap::new();
    while let Some(id) = waiting.pop() {
        if found.contains_key(id) {
            continue;
        }
        let uses: Vec<&str> = nodes.get(id)?["deps"]
            .as_array()?
            .iter()
            .filter(|dep| is_linked(dep))
            .filter_map(|dep| dep["pkg"].as_str())
            .collect();
        found.insert(id, described(packages.get(id)?, &uses, &packages, checksums)?);
        waiting.extend(uses);
    }
    let mut all: Vec<Crate> = found.into_values().collect();
    all.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Some(all)
}

/// Returns whether a dependency is part of the program, and not only of its build or its tests.
fn is_linked(dependency: &Value) -> bool {
    dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

fn described(
    package: &Value,
    uses: &[&str],
    packages: &BTreeMap<&str, &Value>,
    checksums: &BTreeMap<(String, String), String>,
) -> Option<Crate> {
    let key = key(package)?;
    let manifest = Path::new(package["manifest_path"].as_str()?);
    Some(Crate {
        name: key.0.clone(),
        version: key.1.clone(),
        licence: package["license"].as_str()?.to_owned(),
        folder: manifest.parent()?.to_owned(),
        is_ours: package["source"].is_null(),
        checksum: checksums.get(&key).cloned(),
        uses: uses.iter().map(|id| self::key(packages.get(id)?)).collect::<Option<_>>()?,
    })
}

fn key(package: &Value) -> Option<(String, String)> {
    Some((package["name"].as_str()?.to_owned(), package["version"].as_str()?.to_owned()))
}

/// Returns the checksums in a lock file by name and version.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>, String> {
    let document = Document::parse(lock).map_err(|why| format!("Cargo.lock: {why}"))?;
    let packages = document.get("package").and_then(Item::as_array_of_tables).ok_or("Cargo.lock has no packages")?;
    let entry = |table: &toml_edit::Table| {
        let text = |name: &str| table.get(name).and_then(Item::as_str).map(str::to_owned);
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    Ok(packages.iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str) -> Value {
        json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "manifest_path": "/x/Cargo.toml", "source": "registry" })
    }

    #[test]
    fn only_linked_crates_are_in_the_program() {
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("top"), package("used"), package("builds"), package("tests"), package("deep")],
            "resolve": { "nodes": [
                { "id": "top", "deps": [dependency("used", Value::Null), dependency("builds", json!("build")), dependency("tests", json!("dev"))] },
                { "id": "used", "deps": [dependency("deep", Value::Null)] },
                { "id": "deep", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let all = reachable(&metadata, "top", &checksums(lock).unwrap()).unwrap();
        assert_eq!(all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["deep", "top", "used"]);
        assert_eq!(all[0].checksum.as_deref(), Some("ab"));
        assert_eq!(all[2].uses, BTreeSet::from([("deep".into(), "1.0.0".into())]));
    }
}
