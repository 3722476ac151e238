//! A signed apt repository as a static folder: any web server can offer it, and `file:` works, too.

use std::path::Path;

use super::files::{copy, list, make_empty, write};
use super::release::PLATFORMS;
use crate::command::CommandLine;
use crate::tools::Tool;

/// Makes the index of the packages.
const APT_FTPARCHIVE: Tool =
    Tool { name: "apt-ftparchive", probe: &["apt-ftparchive", "--version"], debian: &["apt-utils"] };

const GPG: Tool = Tool { name: "GnuPG", probe: &["gpg", "--version"], debian: &["gnupg"] };

/// Makes a repository in the folder `apt` beside the Debian packages of all platforms in `packages`, and signs it with a
/// key of the caller's key ring, or of the one in `home`. The public key is in the repository.
///
/// # Errors
///
/// When there is no package, or no such key.
pub(crate) fn build(packages: &Path, key: &str, home: Option<&str>) -> Result<(), String> {
    APT_FTPARCHIVE.ensure()?;
    GPG.ensure()?;
    let folder = packages.join("apt");
    make_empty(&folder)?;
    let pool = folder.join("pool/main/m/mendline");
    let mut count = 0;
    for path in list(packages)?.iter().filter(|path| path.extension().is_some_and(|end| end == "deb")) {
        copy(path, &pool.join(path.file_name().unwrap_or_default()))?;
        count += 1;
    }
    if count == 0 {
        return Err(format!("{} has no Debian package; make them first with `cargo xtask dist`", packages.display()));
    }
    PLATFORMS.iter().try_for_each(|platform| index(&folder, platform.debian))?;
    write(&folder.join("dists/stable/Release"), &release_file(&folder)?)?;
    let public = gpg(&["--armor", "--export", key], home).output()?;
    if public.is_empty() {
        return Err(format!("gpg has no public key `{key}`; `gpg --list-keys` lists them"));
    }
    sign(&folder.join("dists/stable"), key, home)?;
    write(&folder.join("mendline.asc"), &public)
}

/// Makes the index of an architecture, which is empty if it has no package.
fn index(folder: &Path, architecture: &str) -> Result<(), String> {
    let index = folder.join(format!("dists/stable/main/binary-{architecture}"));
    let packages = CommandLine::new("apt-ftparchive", &["--arch", architecture, "packages", "pool"]);
    write(&index.join("Packages"), &packages.within(folder).output()?)?;
    CommandLine::new("gzip", &["--best", "--no-name", "--keep", "Packages"]).within(&index).run()
}

/// The file with the checksums of the indexes, and the time at which the repository was made.
fn release_file(folder: &Path) -> Result<String, String> {
    let architectures: Vec<_> = PLATFORMS.iter().map(|platform| platform.debian).collect();
    let architectures = format!("APT::FTPArchive::Release::Architectures={}", architectures.join(" "));
    let mut args = Vec::new();
    for setting in [
        "Origin=Mendline",
        "Label=Mendline",
        "Suite=stable",
        "Codename=stable",
        "Components=main",
        "Description=Packages of mendline",
    ] {
        args.extend(["-o".to_owned(), format!("APT::FTPArchive::Release::{setting}")]);
    }
    args.extend(["-o".to_owned(), architectures, "release".to_owned(), "dists/stable".to_owned()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    CommandLine::new("apt-ftparchive", &args).within(folder).output()
}

/// Signs the file in both forms that apt knows. The signature and the file contain their time, so they
/// differ between two builds.
fn sign(stable: &Path, key: &str, home: Option<&str>) -> Result<(), String> {
    let options = ["--yes", "--digest-algo", "SHA512", "--local-user", key];
    for (form, file) in [(&["--clear-sign"][..], "InRelease"), (&["--armor", "--detach-sign"][..], "Release.gpg")] {
        let args: Vec<&str> = options.iter().chain(form).chain(&["--output", file, "Release"]).copied().collect();
        gpg(&args, home).within(stable).run()?;
    }
    Ok(())
}

fn gpg(args: &[&str], home: Option<&str>) -> CommandLine {
    let args: Vec<&str> = ["--batch"].iter().chain(args).copied().collect();
    let line = CommandLine::new("gpg", &args);
    if let Some(home) = home { line.env("GNUPGHOME", home) } else { line }
}
