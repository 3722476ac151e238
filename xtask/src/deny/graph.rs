//! The dependencies of a workspace: what `cargo metadata` knows of the packages for a target, and the lock file for all.

use std::collections::BTreeMap;

use serde_json::Value;
use toml_edit::{Document, Item};

use crate::command::{CommandLine, root};

/// A package with its licence and its direct dependencies.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence expression, if it has one.
    pub licence: Option<String>,
    /// Whether it is never published.
    is_private: bool,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug)]
struct Dependency {
    name: String,
    requirement: String,
    has_path: bool,
    is_for_tests: bool,
}

impl Package {
    /// Dependencies of ours in any version. A path is enough where the package or the dependency is for tests only.
    pub fn wildcards(&self) -> Vec<String> {
        let is_wild = |it: &&Dependency| {
            let by_path = it.has_path && (self.is_private || it.is_for_tests);
            it.requirement == "*" && !by_path
        };
        let wild = self.dependencies.iter().filter(is_wild);
        wild.map(|it| format!("  {self}: any version of {} would do", it.name)).collect()
    }
}

impl std::fmt::Display for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The packages of a workspace for the targets that it is built for.
#[derive(Debug, Default)]
pub struct Graph {
    /// Each package once.
    pub packages: Vec<Package>,
}

impl Graph {
    /// Asks cargo.
    pub fn load(workspace: &str, targets: &[String]) -> Result<Self, String> {
        let mut packages = BTreeMap::new();
        for target in targets {
            let words = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
            let printed = CommandLine::cargo(&words).within(&root().join(workspace)).output()?;
            for package in Self::read(&printed)?.packages {
                packages.insert(package.to_string(), package);
            }
        }
        Ok(Self { packages: packages.into_values().collect() })
    }

    /// Reads what `cargo metadata` prints.
    pub fn read(printed: &str) -> Result<Self, String> {
        let metadata: Value = serde_json::from_str(printed).map_err(|why| format!("cargo metadata: {why}"))?;
        let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
        let packages = packages.iter().map(package).collect::<Option<Vec<_>>>();
        packages.map(|packages| Self { packages }).ok_or_else(|| "cargo metadata has another form".into())
    }
}

fn package(value: &Value) -> Option<Package> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let dependency = |value: &Value| {
        let (name, requirement) = (text(&value["name"])?, text(&value["req"])?);
        Some(Dependency {
            name,
            requirement,
            has_path: value["path"].is_string(),
            is_for_tests: value["kind"] == "dev",
        })
    };
    // Of packages from a registry only those that are ours to change are looked into.
    let is_ours = value["source"].is_null();
    let dependencies = value["dependencies"].as_array()?.iter().filter(|_| is_ours).map(dependency);
    Some(Package {
        name: text(&value["name"])?,
        version: text(&value["version"])?,
        licence: text(&value["license"]),
        is_private: value["publish"].as_array().is_some_and(Vec::is_empty),
        dependencies: dependencies.collect::<Option<Vec<_>>>()?,
    })
}

/// A lock file.
#[derive(Debug)]
pub struct Locked {
    /// Its packages, those of every target.
    pub packages: Vec<LockedPackage>,
}

/// A package in a lock file.
#[derive(Debug)]
pub struct LockedPackage {
    /// Its name and version.
    pub what: String,
    /// Its registry or repository; a package of the workspace has none.
    pub source: Option<String>,
    /// Whether its contents are locked too.
    pub has_checksum: bool,
}

impl Locked {
    /// Reads a lock file.
    pub fn read(text: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|why| why.to_string())?;
        let packages = document.get("package").and_then(Item::as_array_of_tables).ok_or("no packages")?;
        let read = packages.iter().map(|table| {
            let text = |name: &str| table.get(name).and_then(Item::as_str);
            Some(LockedPackage {
                what: format!("{} {}", text("name")?, text("version")?),
                source: text("source").map(str::to_owned),
                has_checksum: text("checksum").is_some(),
            })
        });
        let packages = read.collect::<Option<Vec<_>>>().ok_or("a package without a name or version")?;
        Ok(Self { packages })
    }
}
