//! The packages for npm: `mendline`, which contains the launcher, and one package with the program for each platform.
//!
//! The packages of the platforms are optional dependencies with `os`, `cpu` and `libc`, so that npm installs the right
//! one from its registry. There is no install script, which many users forbid.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::files::{copy, filled, make_empty, source, write};
use super::program::LICENCES;
use super::release::{DESCRIPTION, PLATFORMS, Platform, REGISTRY_NAME, REPOSITORY, Release};
use super::third_party;
use crate::command::{CommandLine, root};
use crate::tools::{NODE, NPM};

/// Makes the packages.
pub(crate) fn build(release: &Release, program: &Path) -> Result<(), String> {
    NODE.ensure()?;
    NPM.ensure()?;
    let platform = release.platform;
    let of_platform = stage(release, platform.name, &platform_manifest(platform, &release.version))?;
    copy(program, &of_platform.join("bin/mendline"))?;
    write(&of_platform.join("README.md"), &filled("npm/README-platform.md", &[("PLATFORM", platform.name)])?)?;
    write(&of_platform.join(third_party::FILE), &third_party::notices(platform.triple)?)?;
    let launcher = stage(release, "mendline", &manifest(&release.version))?;
    copy(&source("npm/mendline.js"), &launcher.join("bin/mendline.js"))?;
    copy(&source("npm/README.md"), &launcher.join("README.md"))?;
    [of_platform, launcher].iter().try_for_each(|folder| pack(release, folder))
}

fn stage(release: &Release, name: &str, manifest: &Value) -> Result<PathBuf, String> {
    let folder = release.work.join("npm").join(name);
    make_empty(&folder)?;
    write(&folder.join("package.json"), &format!("{manifest:#}\n"))?;
    LICENCES.iter().try_for_each(|licence| copy(&root().join(licence), &folder.join(licence)))?;
    Ok(folder)
}

/// npm gives all files in an archive the same time, and sorts them.
fn pack(release: &Release, folder: &Path) -> Result<(), String> {
    let args = ["pack", "--silent", "--pack-destination", &release.out.to_string_lossy()];
    CommandLine::new("npm", &args).within(folder).output().map(drop)
}

/// The file name of a package, as `npm pack` chooses it.
pub(crate) fn file_name(package: &str, version: &str) -> String {
    format!("{}-{version}.tgz", package.trim_start_matches('@').replace('/', "-"))
}

/// The name of the package of a platform.
pub(crate) fn package_of(platform: &Platform) -> String {
    format!("@mendline/{}", platform.name)
}

fn manifest(version: &str) -> Value {
    let programs: Map<String, Value> =
        PLATFORMS.iter().map(|platform| (package_of(platform), json!(version))).collect();
    json!({
        "name": "mendline",
        "version": version,
        "description": DESCRIPTION,
        "keywords": ["mcp", "proxy", "reliability", "retry", "self-healing"],
        "homepage": "https://mendline.dev",
        "repository": repository(),
        "license": "MIT OR Apache-2.0",
        "mcpName": REGISTRY_NAME,
        "bin": { "mendline": "bin/mendline.js" },
        "files": ["bin", "LICENSE-*"],
        "engines": { "node": ">=18" },
        "optionalDependencies": programs,
    })
}

/// The repository in the form into which npm normalizes it.
fn repository() -> Value {
    json!({ "type": "git", "url": format!("git+{REPOSITORY}.git") })
}

fn platform_manifest(platform: &Platform, version: &str) -> Value {
    json!({
        "name": package_of(platform),
        "version": version,
        "description": format!("The program of mendline for {}", platform.name),
        "homepage": "https://mendline.dev",
        "repository": repository(),
        "license": "MIT OR Apache-2.0",
        "os": [platform.os],
        "cpu": [platform.cpu],
        "libc": ["glibc"],
        "files": ["bin", "LICENSE-*", third_party::FILE],
        // Yarn would otherwise leave the program in an archive.
        "preferUnplugged": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launcher_depends_on_every_platform_at_its_own_version() {
        let manifest = manifest("1.2.3");
        let programs = manifest["optionalDependencies"].as_object().unwrap();
        assert_eq!(programs.len(), PLATFORMS.len());
        assert!(programs.values().all(|version| version == "1.2.3"));
        assert!(manifest.get("scripts").is_none(), "nothing runs at installation");
    }

    #[test]
    fn every_manifest_names_the_repository() {
        for manifest in [manifest("1.2.3"), platform_manifest(&PLATFORMS[0], "1.2.3")] {
            assert_eq!(manifest["repository"]["url"], "git+https://github.com/mendline/mendline.git", "{manifest}");
        }
    }

    #[test]
    fn scoped_package_has_the_file_name_of_npm() {
        assert_eq!(file_name(&package_of(&PLATFORMS[0]), "1.2.3"), "mendline-linux-x64-1.2.3.tgz");
        assert_eq!(file_name("mendline", "1.2.3"), "mendline-1.2.3.tgz");
    }
}
