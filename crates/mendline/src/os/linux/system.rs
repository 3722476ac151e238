//! Description of this machine, for a bug report.

use std::fs;

/// Returns the name of this machine in its network.
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns facts about the system, each with its name: the distribution, and the version of the kernel.
pub fn describe() -> Vec<(&'static str, String)> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let distribution = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let distribution = distribution.map(|name| name.trim_matches('"').to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|version| version.trim().to_owned());
    let facts = [("system", distribution), ("kernel", kernel)];
    facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect()
}
