//! The Debian package, made by `dpkg-deb` from a tree: without root, without a build in Debian's own tool chain, and
//! with fixed times.
//!
//! cargo-deb would do the same with one more tool to install; the tree exists already for the archive.

use std::path::{Path, PathBuf};

use super::files::{self, copy, filled, make_empty, read, source, write};
use super::release::{GLIBC, Release};
use super::third_party;
use crate::command::{CommandLine, root};

/// The file name of the package.
pub(crate) fn file_name(release: &Release) -> String {
    format!("mendline_{}-1_{}.deb", release.version, release.platform.debian)
}

/// Makes the package.
pub(crate) fn build(release: &Release, tree: &Path) -> Result<(), String> {
    let stage = release.work.join("debian");
    make_empty(&stage)?;
    fill_usr(&stage.join("usr"), tree)?;
    write_doc(release, &stage.join("usr/share/doc/mendline"))?;
    normalize(&stage)?;
    write_control(release, &stage)?;
    let package = release.out.join(file_name(release));
    let args = ["--root-owner-group", "-Zxz", "--build", &stage.to_string_lossy(), &package.to_string_lossy()];
    CommandLine::new("dpkg-deb", &args).env("SOURCE_DATE_EPOCH", &release.epoch).output().map(drop)
}

/// Copies the tree to the places that Debian has for its files.
fn fill_usr(usr: &Path, tree: &Path) -> Result<(), String> {
    copy(&tree.join("bin/mendline"), &usr.join("bin/mendline"))?;
    let from = tree.join("share");
    for (file, place) in [
        ("bash-completion/completions/mendline", "bash-completion/completions/mendline"),
        ("zsh/site-functions/_mendline", "zsh/vendor-completions/_mendline"),
        ("fish/vendor_completions.d/mendline.fish", "fish/vendor_completions.d/mendline.fish"),
    ] {
        copy(&from.join(file), &usr.join("share").join(place))?;
    }
    for page in files::list(&from.join("man/man1"))? {
        let name = page.file_name().unwrap_or_default();
        copy(&page, &usr.join("share/man/man1").join(name))?;
    }
    for unit in ["mendline.socket", "mendline@.service", "mendline-serve.socket", "mendline-serve.service"] {
        copy(&source("systemd").join(unit), &usr.join("lib/systemd/user").join(unit))?;
    }
    copy(&from.join("doc/mendline").join(third_party::FILE), &usr.join("share/doc/mendline").join(third_party::FILE))?;
    let overrides = usr.join("share/lintian/overrides/mendline");
    copy(&source("debian/lintian-overrides"), &overrides)
}

fn write_doc(release: &Release, doc: &Path) -> Result<(), String> {
    let mit: String = read(&root().join("LICENSE-MIT"))?.lines().map(copyright_line).collect();
    write(&doc.join("copyright"), &filled("debian/copyright", &[("MIT", mit.trim_end())])?)?;
    copy(&root().join("CHANGELOG.md"), &doc.join("changelog"))?;
    let date = CommandLine::new("date", &["--utc", "--rfc-email", "--date", &format!("@{}", release.epoch)])
        .env("LC_ALL", "C")
        .output()?;
    let changes = filled("debian/changelog", &[("VERSION", &release.version), ("DATE", date.trim())])?;
    write(&doc.join("changelog.Debian"), &changes)
}

/// A line of a licence in the format of the copyright file, in which an empty line is a dot.
fn copyright_line(line: &str) -> String {
    if line.trim().is_empty() { " .\n".into() } else { format!(" {}\n", line.trim_end()) }
}

/// Compresses what Debian wants compressed, and sets the modes of all files.
fn normalize(stage: &Path) -> Result<(), String> {
    let script = "gzip --best --no-name usr/share/man/man1/* usr/share/doc/mendline/changelog* usr/share/doc/mendline/THIRD-PARTY.txt \
        && find . -type d -exec chmod 755 {} + && find . -type f -exec chmod 644 {} + && chmod 755 usr/bin/mendline";
    CommandLine::new("sh", &["-c", script]).within(stage).run()
}

fn write_control(release: &Release, stage: &Path) -> Result<(), String> {
    let size = CommandLine::new(
        "sh",
        &["-c", "find usr -type f -printf '%s\\n' | awk '{ n += int(($1 + 1023) / 1024) } END { print n }'"],
    )
    .within(stage)
    .output()?;
    let glibc = format!("{}.{}", GLIBC.0, GLIBC.1);
    let values = [
        ("VERSION", release.version.as_str()),
        ("ARCHITECTURE", release.platform.debian),
        ("SIZE", size.trim()),
        ("GLIBC", &glibc),
    ];
    write(&stage.join("DEBIAN/control"), &filled("debian/control", &values)?)?;
    let sums =
        "find usr -type f | LC_ALL=C sort | xargs md5sum > DEBIAN/md5sums && chmod 755 DEBIAN && chmod 644 DEBIAN/*";
    CommandLine::new("sh", &["-c", sums]).within(stage).run()
}

/// The path of the built package.
pub(crate) fn path(release: &Release) -> PathBuf {
    release.out.join(file_name(release))
}

#[cfg(test)]
mod tests {
    use super::copyright_line;

    #[test]
    fn empty_line_of_a_licence_is_a_dot() {
        assert_eq!(copyright_line(""), " .\n");
        assert_eq!(copyright_line("Permission is granted "), " Permission is granted\n");
    }
}
