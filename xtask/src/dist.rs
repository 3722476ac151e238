//! `cargo xtask dist`: makes all packages of this machine's platform, and tests them by installing them.
//!
//! The program is compiled once. Every package is made from it with fixed times, orders and owners, so that two builds
//! give the same bytes. The folder `packaging/` holds the sources of the packages, without a version.

mod apt;
mod archive;
mod crates;
mod deb;
mod files;
mod notes;
mod npm;
mod program;
mod publish;
mod registry;
mod release;
mod sbom;
mod third_party;
mod trial;

use std::path::{Path, PathBuf};

use release::{Build, Release};

use crate::command::root;

const HELP: &str = "\
Usage: cargo xtask dist [--out DIR] [--sign KEY]
       cargo xtask dist --apt DIR --sign KEY
       cargo xtask dist --test [--full]
       cargo xtask dist --crates
       cargo xtask dist --notes [VERSION]

Makes the wheel, the npm packages, the archive with its install script, the Debian package, server.json, the bill of
materials and SHA256SUMS into target/dist/packages.

  --out DIR          makes the packages in this folder
  --apt DIR          makes only an apt repository of the Debian packages in this folder, for several platforms
  --sign KEY         also makes an apt repository, signed with this key of gpg
  --test             makes the packages of a program with little optimisation, installs each into a bare environment
                     and uses it there
  --full             with --test: the program as it is published; also compiles it a second time in another folder and
                     compares the bytes, packages the crates for crates.io, and runs the demo in its full length
  --crates           packages the crates for crates.io, and compiles each from its package
  --notes [VERSION]  prints the release notes from CHANGELOG.md
";

/// Makes or tests the packages.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--help" | "-h"] => print!("{HELP}"),
        ["--apt", folder, "--sign", key] => apt::build(&root().join(folder), key, None)?,
        ["--crates"] => publish::package()?,
        ["--notes"] => print!("{}", notes::of(&release::version()?)?),
        ["--notes", version] => print!("{}", notes::of(version)?),
        ["--test"] => trial::run(false)?,
        ["--test", "--full"] => trial::run(true)?,
        _ => make_as(&args)?,
    }
    Ok(())
}

/// Makes the packages as the options say.
fn make_as(args: &[&str]) -> Result<(), String> {
    let (mut out, mut key) = (None, None);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{arg} needs a value\n{HELP}"));
        match *arg {
            "--out" => out = Some(empty_folder(&root().join(value()?))?),
            "--sign" => key = Some((*value()?).to_owned()),
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    let release = Release::load(out, Build::Published)?;
    make(&release, root(), &release.build.folder())?;
    if let Some(key) = &key {
        apt::build(&release.out, key, None)?;
    }
    for path in files::list(&release.out)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Returns a folder of the caller, which must be empty, because the packages replace what is in their folder.
fn empty_folder(folder: &Path) -> Result<PathBuf, String> {
    let is_free = !folder.exists() || folder.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if is_free { Ok(folder.to_owned()) } else { Err(format!("{} is not empty; name a new folder", folder.display())) }
}

/// Makes all packages from the sources in `from`. Returns the path of the program.
fn make(release: &Release, from: &Path, build_folder: &Path) -> Result<PathBuf, String> {
    files::make_empty(&release.out)?;
    let program = program::build(release, from, build_folder)?;
    assemble(release, &program)?;
    Ok(program)
}

/// Makes all packages but the wheel from a compiled program.
fn assemble(release: &Release, program: &Path) -> Result<(), String> {
    let tree = program::tree(release, program)?;
    npm::build(release, program)?;
    archive::build(release, &tree)?;
    deb::build(release, &tree)?;
    registry::build(release)?;
    files::write(&release.out.join(sbom::file_name(release)), &sbom::text(release)?)?;
    archive::checksums(release)
}
