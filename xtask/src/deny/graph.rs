//! The dependencies of a workspace: the packages for a target by `cargo metadata`, and all packages by the lock file.

use std::collections::BTreeMap;

use serde_json::Value;
use toml_edit::{Document, Item};

use crate::command::{CommandLine, root};

/// A package with its licence and its direct dependencies.
#[derive(Clone, Debug)]
pub struct Package {
    /// The package name.
    pub name: String,
    /// The package version.
    pub version: String,
    /// The licence expression, if there is one.
    pub licence: Option<String>,
    /// True if the package is never published.
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
    /// Returns dependencies without a version requirement. A path is sufficient if the package or the dependency is for
    /// tests only.
    pub fn wildcards(&self) -> Vec<String> {
        let is_wild = |it: &&Dependency| {
            let by_path = it.has_path && (self.is_private || it.is_for_tests);
            it.requirement == "*" && !by_path
        };
        let wild = self.dependencies.iter().filter(is_wild);
        wild.map(|it| format!("  {self}: any version of {} is accepted", it.name)).collect()
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
    /// Runs `cargo metadata`.
    pub fn load(workspace: &str, targets: &[String]) -> Result<Self, String> {
        let mut packages = BTreeMap::new();
        for target in targets {
            let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
            let printed = CommandLine::cargo(&args).within(&root().join(workspace)).output()?;
            for package in Self::read(&printed)?.packages {
                packages.insert(package.to_string(), package);
            }
        }
        Ok(Self { packages: packages.into_values().collect() })
    }

    /// Parses the output of `cargo metadata`.
    pub fn read(printed: &str) -> Result<Self, String> {
        let metadata: Value = serde_json::from_str(printed).map_err(|why| format!("cargo metadata: {why}"))?;
        let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
        let packages = packages.iter().map(package).collect::<Option<Vec<_>>>();
        packages
            .map(|packages| Self { packages })
            .ok_or_else(|| "the output of cargo metadata has an unknown form".into())
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
    // The dependencies of packages from a registry are not checked.
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
    /// The packages for all targets.
    pub packages: Vec<LockedPackage>,
}

/// A package in a lock file.
#[derive(Debug)]
pub struct LockedPackage {
    /// The name and the version.
    pub what: String,
    /// The registry or repository; none for a package of the workspace.
    pub source: Option<String>,
    /// True if the lock file has a checksum.
    pub has_checksum: bool,
}

impl Locked {
    /// Parses a lock file.
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
