//! The program, compiled once for all packages, and the tree of files that most packages contain.
//!
//! maturin compiles it and makes the wheel. It links with zig against an old glibc, so that the program runs on systems
//! that are older than the one that builds it. Both come from PyPI, pinned in `packaging/requirements.txt`. Paths of
//! this machine are replaced in the program, so that two builds in different folders are equal.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::{self, copy, filled, make_empty, write};
use super::release::{GLIBC, Release};
use super::{sbom, third_party};
use crate::command::{CommandLine, root, target};
use crate::installation;
use crate::tools::PYTHON;

/// Installs the tools that build and test the packages, and returns their folder.
pub(crate) fn tools() -> Result<PathBuf, String> {
    PYTHON.ensure()?;
    let folder = target().join("dist/tools");
    let lock = files::source("requirements.txt");
    installation::ensure(&folder, std::slice::from_ref(&lock), || installation::pip(&lock, &folder))?;
    Ok(folder)
}

/// Compiles the program from the sources in `from`, makes the wheel and returns the path of the program.
pub(crate) fn build(release: &Release, from: &Path, build_folder: &Path) -> Result<PathBuf, String> {
    let tools = tools()?;
    let stage = release.work.join("pypi");
    make_empty(&stage)?;
    let manifest = from.join("crates/mendline-cli/Cargo.toml");
    let project = filled("pypi/pyproject.toml", &[("MANIFEST", &manifest.to_string_lossy())])?;
    write(&stage.join("pyproject.toml"), &project)?;
    write(&stage.join("README.md"), &filled("pypi/README.md", &[])?)?;
    for licence in LICENCES {
        copy(&root().join(licence), &stage.join(licence))?;
    }
    write(&stage.join(third_party::FILE), &third_party::notices(release.platform.triple)?)?;
    write(&stage.join("mendline.cdx.json"), &sbom::text(release)?)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let (minor, out) = (format!("manylinux_{}_{}", GLIBC.0, GLIBC.1), release.out.to_string_lossy());
    let args = ["build", "--profile", "dist", "--locked", "--zig", "--target", release.platform.triple];
    let args: Vec<&str> = args.into_iter().chain(["--compatibility", &minor, "--out", &out]).collect();
    let maturin = CommandLine::new(tools.join("bin/maturin"), &args);
    let maturin = release.build.settings().iter().fold(maturin, |line, (name, value)| line.env(name, value));
    maturin
        .env("PATH", &format!("{}:{path}", tools.join("bin").display()))
        .env("CARGO_TARGET_DIR", &build_folder.to_string_lossy())
        .env("CARGO_ENCODED_RUSTFLAGS", &remapped(from))
        .env("SOURCE_DATE_EPOCH", &release.epoch)
        .within(&stage)
        .run()?;
    Ok(build_folder.join(release.platform.triple).join("dist/mendline"))
}

/// The licences of Mendline.
pub(crate) const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The flags of rustc that replace paths of this machine.
fn remapped(from: &Path) -> String {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).unwrap_or_default();
    let flag = |path: &Path, name: &str| format!("--remap-path-prefix={}={name}", path.display());
    [flag(&cargo, "/cargo"), flag(from, "/mendline")].join("\x1f")
}

/// Makes the tree of the archive and of the Debian package: `bin` and `share`.
pub(crate) fn tree(release: &Release, program: &Path) -> Result<PathBuf, String> {
    let tree = release.work.join("tree");
    make_empty(&tree)?;
    let installed = tree.join("bin/mendline");
    copy(program, &installed)?;
    let share = tree.join("share");
    CommandLine::new(&installed, &["man", "--output", &share.join("man/man1").to_string_lossy()]).output()?;
    for (shell, place) in COMPLETIONS {
        write(&share.join(place), &CommandLine::new(&installed, &["completions", shell]).output()?)?;
    }
    let doc = share.join("doc/mendline");
    for name in LICENCES.into_iter().chain(["CHANGELOG.md", "README.md"]) {
        copy(&root().join(name), &doc.join(name))?;
    }
    write(&doc.join(third_party::FILE), &third_party::notices(release.platform.triple)?)?;
    Ok(tree)
}

/// The shells with completions, and where their files belong below `share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/mendline"),
    ("zsh", "zsh/site-functions/_mendline"),
    ("fish", "fish/vendor_completions.d/mendline.fish"),
];

/// Returns the newest version of glibc that a program asks for.
pub(crate) fn newest_glibc(program: &Path) -> Result<(u32, u32), String> {
    let bytes = fs::read(program).map_err(|why| format!("cannot read {}: {why}", program.display()))?;
    newest_in(&bytes).ok_or_else(|| format!("{} names no version of glibc", program.display()))
}

/// Returns the highest `GLIBC_x.y` in the bytes. The names of versions that a program needs are text in it.
fn newest_in(bytes: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let starts = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let versions = starts.filter_map(|(at, _)| {
        let rest = &bytes[at + MARK.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(rest.len());
        let mut numbers = std::str::from_utf8(&rest[..end]).ok()?.split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_glibc_is_the_highest_number() {
        assert_eq!(newest_in(b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE\0"), Some((2, 17)));
        assert_eq!(newest_in(b"\0GLIBC_PRIVATE\0"), None);
        assert_eq!(newest_in(b"GLIBC_2.34"), Some((2, 34)));
    }
}
