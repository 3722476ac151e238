//! The part of `deny.toml` that can be checked without a network.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{Document, Item, Table, Value};

use super::graph::{Graph, LockedPackage, Package};
use super::licence::is_permitted;

/// The policy.
#[derive(Debug)]
pub struct Policy {
    /// The targets whose dependencies are checked.
    pub targets: Vec<String>,
    licences: BTreeSet<String>,
    /// Licences that are allowed for one package only.
    exceptions: BTreeMap<String, BTreeSet<String>>,
    /// Versions that are allowed next to another one.
    skipped: BTreeSet<String>,
    /// Forbidden packages and the reasons.
    banned: BTreeMap<String, String>,
    registries: BTreeSet<String>,
}

impl Policy {
    /// Parses the file.
    ///
    /// # Errors
    ///
    /// When it is not TOML, is incomplete, or allows what must be forbidden.
    pub fn read(text: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|why| why.to_string())?;
        let section = |name: &str| document.get(name).and_then(Item::as_table).ok_or(format!("[{name}] is missing"));
        let (graph, licenses, bans, sources) =
            (section("graph")?, section("licenses")?, section("bans")?, section("sources")?);
        for (table, key) in
            [(bans, "multiple-versions"), (bans, "wildcards"), (sources, "unknown-registry"), (sources, "unknown-git")]
        {
            if table.get(key).and_then(Item::as_str) != Some("deny") {
                return Err(format!("{key} must be \"deny\""));
            }
        }
        if !texts(sources, "allow-git")?.is_empty() {
            return Err("allow-git must be empty".into());
        }
        let targets = texts(graph, "targets")?;
        if targets.is_empty() {
            return Err("targets must name at least one".into());
        }
        let mut exceptions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for entry in entries(licenses, "exceptions")? {
            let allow = entry.get("allow").and_then(Value::as_array).ok_or("an exception without `allow`")?;
            let allow = allow.iter().filter_map(Value::as_str).map(str::to_owned);
            exceptions.entry(named(entry)?).or_default().extend(allow);
        }
        let mut skipped = BTreeSet::new();
        for entry in entries(bans, "skip")? {
            let (name, _) = (named(entry)?, reason(entry)?);
            if !name.contains('@') {
                return Err(format!("{name}: only one version can be skipped, `{name}@VERSION`"));
            }
            skipped.insert(name);
        }
        let mut banned = BTreeMap::new();
        for entry in entries(bans, "deny")? {
            banned.insert(named(entry)?, reason(entry)?);
        }
        Ok(Self {
            targets,
            licences: texts(licenses, "allow")?.into_iter().collect(),
            exceptions,
            skipped,
            banned,
            registries: texts(sources, "allow-registry")?.into_iter().collect(),
        })
    }

    /// Returns the violation by the licence of a package.
    pub fn licence_of(&self, package: &Package) -> Option<String> {
        let Some(licence) = &package.licence else { return Some(format!("  {package}: it has no licence")) };
        match self.permits(package, licence, None) {
            Some(true) => None,
            Some(false) => Some(format!("  {package}: the licence `{licence}` is not allowed")),
            None => Some(format!("  {package}: the licence `{licence}` cannot be read")),
        }
    }

    /// Returns whether the licence of a package is allowed if one of the allowed licences were removed.
    fn permits(&self, package: &Package, licence: &str, without: Option<&str>) -> Option<bool> {
        let exceptions = self.exceptions.get(&package.name);
        is_permitted(licence, &|name| {
            let is_exception = exceptions.is_some_and(|allowed| allowed.contains(name));
            is_exception || self.licences.contains(name) && without != Some(name)
        })
    }

    /// Returns the violation if a package is forbidden.
    pub fn ban_of(&self, package: &Package) -> Option<String> {
        self.banned.get(&package.name).map(|reason| format!("  {package}: forbidden: {reason}"))
    }

    /// Returns the violation by the source of a package.
    pub fn source_of(&self, package: &LockedPackage) -> Option<String> {
        let what = &package.what;
        let source = package.source.as_deref()?;
        let is_known = source.strip_prefix("registry+").is_some_and(|url| self.registries.contains(url));
        if !is_known {
            return Some(format!("  {what}: unknown source {source}"));
        }
        (!package.has_checksum).then(|| format!("  {what}: the lock file has no checksum for it"))
    }

    /// Returns packages with more than one version that is not skipped.
    pub fn duplicates_in(&self, graph: &Graph) -> Vec<String> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in &graph.packages {
            let found = versions.entry(&package.name).or_default();
            if !self.skipped.contains(&spelled(package)) {
                found.insert(&package.version);
            }
        }
        let several = versions.into_iter().filter(|(_, found)| found.len() > 1);
        several
            .map(|(name, found)| {
                let found: Vec<&str> = found.into_iter().collect();
                format!("  {name}: multiple versions: {}", found.join(", "))
            })
            .collect()
    }

    /// Returns permissions that no package of any workspace needs.
    pub fn unused(&self, graphs: &[Graph]) -> Vec<String> {
        let packages = || graphs.iter().flat_map(|graph| &graph.packages);
        let mut violations = Vec::new();
        for licence in &self.licences {
            let needs = |package: &Package| {
                package.licence.as_deref().is_some_and(|it| {
                    self.permits(package, it, None) == Some(true)
                        && self.permits(package, it, Some(licence)) == Some(false)
                })
            };
            if !packages().any(needs) {
                violations.push(format!("  no package needs the licence `{licence}`"));
            }
        }
        for name in self.exceptions.keys().filter(|name| packages().all(|package| package.name != **name)) {
            violations.push(format!("  no package needs the exception for {name}"));
        }
        for skipped in &self.skipped {
            let is_needed = |graph: &Graph| {
                let same = |package: &&Package| skipped.starts_with(&format!("{}@", package.name));
                let is_there = graph.packages.iter().any(|package| spelled(package) == *skipped);
                is_there && graph.packages.iter().filter(same).count() > 1
            };
            if !graphs.iter().any(is_needed) {
                violations.push(format!("  no package needs the exception for {skipped}"));
            }
        }
        violations
    }
}

fn spelled(package: &Package) -> String {
    format!("{}@{}", package.name, package.version)
}

/// Reads a list of strings; a missing one is empty.
fn texts(table: &Table, key: &str) -> Result<Vec<String>, String> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
    let list = item.as_array().ok_or(format!("{key} must be a list"))?;
    let texts = list.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
    texts.ok_or(format!("{key} must be a list of texts"))
}

/// Reads a list of tables; a missing one is empty.
fn entries<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a toml_edit::InlineTable>, String> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
    let list = item.as_array().ok_or(format!("{key} must be a list"))?;
    let entries = list.iter().map(Value::as_inline_table).collect::<Option<Vec<_>>>();
    entries.ok_or(format!("{key} must be a list of {{ crate = … }}"))
}

fn named(entry: &toml_edit::InlineTable) -> Result<String, String> {
    entry.get("crate").and_then(Value::as_str).map(str::to_owned).ok_or("an entry without `crate`".into())
}

fn reason(entry: &toml_edit::InlineTable) -> Result<String, String> {
    let reason = entry.get("reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
    reason.map(str::to_owned).ok_or("an entry without a reason".into())
}
