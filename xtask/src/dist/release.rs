//! The facts of a release: version, date, platform and folders. The version is that of the workspace and stands nowhere
//! else.

use std::path::PathBuf;

use serde_json::Value;

use crate::command::{CommandLine, target};

/// A platform with packages.
#[derive(Debug)]
pub(crate) struct Platform {
    /// The name in npm packages and archives: Node's words for the system and the processor.
    pub(crate) name: &'static str,
    /// The target of rustc.
    pub(crate) triple: &'static str,
    /// The system, as npm names it.
    pub(crate) os: &'static str,
    /// The processor, as npm names it.
    pub(crate) cpu: &'static str,
    /// The architecture, as Debian names it.
    pub(crate) debian: &'static str,
}

/// All platforms. A machine builds the packages of its own; the package `mendline` of npm names all.
pub(crate) const PLATFORMS: [Platform; 2] = [
    Platform { name: "linux-x64", triple: "x86_64-unknown-linux-gnu", os: "linux", cpu: "x64", debian: "amd64" },
    Platform { name: "linux-arm64", triple: "aarch64-unknown-linux-gnu", os: "linux", cpu: "arm64", debian: "arm64" },
];

/// The oldest glibc on which the program runs.
pub(crate) const GLIBC: (u32, u32) = (2, 17);

/// Name and owner in the MCP registry, which the packages of npm and PyPI confirm.
pub(crate) const REGISTRY_NAME: &str = "dev.mendline/mendline";

/// The sources. npm accepts a package with provenance only if it names the repository whose workflow publishes it.
pub(crate) const REPOSITORY: &str = "https://github.com/mendline/mendline";

/// The one-line description of all packages, within the hundred characters of the MCP registry.
pub(crate) const DESCRIPTION: &str =
    "Keeps MCP connections alive: a proxy that repairs broken connections to MCP servers";

/// The facts of a release.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    /// The version of the workspace.
    pub(crate) version: String,
    /// The time of all files in the packages, in seconds since 1970: that of the commit, or `SOURCE_DATE_EPOCH`.
    pub(crate) epoch: String,
    /// The platform of this machine.
    pub(crate) platform: &'static Platform,
    /// The folder of the packages.
    pub(crate) out: PathBuf,
    /// The folder of intermediate files.
    pub(crate) work: PathBuf,
    /// How the program is compiled.
    pub(crate) build: Build,
}

/// The ways to compile the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// As it is published: the profile `dist`.
    Published,
    /// With less optimisation, in a third of the time, for the tests of the packages before a change lands.
    Quick,
}

impl Build {
    /// The folder of cargo. Each way has its own, so that neither discards the other's work.
    pub(crate) fn folder(self) -> PathBuf {
        target().join(match self {
            Self::Published => "dist/build",
            Self::Quick => "dist/build-quick",
        })
    }

    /// The folder of the packages. Those that must not be published have their own.
    fn packages(self) -> PathBuf {
        target().join(match self {
            Self::Published => "dist/packages",
            Self::Quick => "dist/packages-for-tests",
        })
    }

    /// Changes of the profile.
    pub(crate) fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Published => &[],
            Self::Quick => &[
                ("CARGO_PROFILE_DIST_LTO", "off"),
                ("CARGO_PROFILE_DIST_CODEGEN_UNITS", "16"),
                ("CARGO_PROFILE_DIST_OPT_LEVEL", "1"),
            ],
        }
    }
}

impl Release {
    /// Reads the facts.
    ///
    /// # Errors
    ///
    /// When the platform has no packages, or cargo or git fails.
    pub(crate) fn load(out: Option<PathBuf>, build: Build) -> Result<Self, String> {
        let platform = PLATFORMS.iter().find(|platform| is_here(platform)).ok_or_else(|| {
            let names: Vec<_> = PLATFORMS.iter().map(|platform| platform.name).collect();
            format!("there are no packages for this platform; build on one of: {}", names.join(", "))
        })?;
        let work = target().join("dist/work");
        let out = out.unwrap_or_else(|| build.packages());
        Ok(Self { version: version()?, epoch: epoch()?, platform, out, work, build })
    }

    /// The folder name of the archive, and its file name without the extension.
    pub(crate) fn archive(&self) -> String {
        format!("mendline-{}-{}", self.version, self.platform.name)
    }
}

fn is_here(platform: &Platform) -> bool {
    let (cpu, os) = (std::env::consts::ARCH, std::env::consts::OS);
    platform.os == os && platform.triple.starts_with(cpu)
}

/// Returns the version of the workspace.
pub(crate) fn version() -> Result<String, String> {
    let printed = CommandLine::cargo(&["metadata", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_str(&printed).map_err(|why| format!("cargo metadata: {why}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let program = packages.iter().find(|package| package["name"] == "mendline-cli");
    let version = program.and_then(|package| package["version"].as_str());
    version.map(str::to_owned).ok_or_else(|| "cargo metadata has no version of mendline-cli".into())
}

fn epoch() -> Result<String, String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        let is_number = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
        return if is_number {
            Ok(given)
        } else {
            Err(format!("SOURCE_DATE_EPOCH={given} is not a number of seconds"))
        };
    }
    CommandLine::new("git", &["log", "-1", "--format=%ct"]).output().map(|printed| printed.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_is_that_of_the_workspace() {
        let manifest = std::fs::read_to_string(crate::command::root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("repository = \"{REPOSITORY}\"")));
        let wheel = std::fs::read_to_string(crate::command::root().join("packaging/pypi/pyproject.toml")).unwrap();
        assert!(wheel.contains(&format!("Repository = \"{REPOSITORY}\"")));
    }

    #[test]
    fn description_fits_the_registry() {
        assert!(DESCRIPTION.len() <= 100);
    }

    #[test]
    fn platform_names_consist_of_the_words_of_node() {
        assert!(PLATFORMS.iter().all(|platform| platform.name == format!("{}-{}", platform.os, platform.cpu)));
    }
}
