//! The archive of the program with its install script, checksums and the number of the newest version.

use std::path::Path;

use super::files::{self, copy, source, write};
use super::release::Release;
use crate::command::CommandLine;

/// Makes the archive. Order, times, owners and modes are fixed, so that equal trees give equal bytes.
pub(crate) fn build(release: &Release, tree: &Path) -> Result<(), String> {
    let name = release.archive();
    let archive = release.out.join(format!("{name}.tar.gz"));
    pack(release, tree, &format!("--transform=s,^\\.,{name},"), &archive)?;
    copy(&source("install.sh"), &release.out.join("install.sh"))?;
    write(&release.out.join("latest.txt"), &format!("{}\n", release.version))
}

fn pack(release: &Release, tree: &Path, rename: &str, archive: &Path) -> Result<(), String> {
    let time = format!("--mtime=@{}", release.epoch);
    let tar = "tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=go=u,go-w \"$@\" . | gzip --best --no-name > \"$0\"";
    CommandLine::new("sh", &["-c", tar, &archive.to_string_lossy(), &time, rename]).within(tree).run()
}

/// Writes the checksums of all packages, under the name for people and under that with the version, which stays beside
/// the archives of later versions.
pub(crate) fn checksums(release: &Release) -> Result<(), String> {
    let lists = ["SHA256SUMS".to_owned(), format!("SHA256SUMS-{}", release.version)];
    let lists = lists.map(|name| release.out.join(name));
    let packages = files::list(&release.out)?.into_iter().filter(|path| !lists.contains(path));
    let names: Vec<String> =
        packages.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sums = CommandLine::new("sha256sum", &names).within(&release.out).output()?;
    lists.iter().try_for_each(|list| write(list, &sums))
}
