//! `cargo xtask peers`: the official SDKs, installed from lock files, and the tests that hold Mendline against them.
//!
//! Each installation stands beside a copy of the lock file that it was made from. As long as the copy equals the lock file in
//! the repository nothing is fetched; a changed lock file, or an installation that was cut short, starts from nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Line, root, target};
use crate::tools::{self, NODE, NPM, PYTHON};

const HELP: &str = "\
Usage: cargo xtask peers [--only NAME] [--install]

  --only NAME   only the tests whose name contains NAME, e.g. python_2 or modern
  --install     install what is missing and stop
";

/// Installs the peers and runs their tests.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut only = None;
    let mut install_only = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => only = Some(args.next().ok_or("--only needs a name")?.as_str()),
            "--install" => install_only = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(format!("unknown option `{other}`\n{HELP}")),
        }
    }
    install()?;
    if install_only { Ok(()) } else { test(only) }
}

/// Puts every peer in its place.
fn install() -> Result<(), String> {
    PYTHON.ensure()?;
    NODE.ensure()?;
    NPM.ensure()?;
    python("python-1", "requirements-1.txt")?;
    python("python-2", "requirements-2.txt")?;
    node()
}

/// Builds `mendline` and the peers package and runs the tests of the latter.
///
/// The whole workspace is built, as `cargo xtask test` does: cargo unites the features of what it builds together, and a
/// smaller selection would compile half of the dependencies a second time.
fn test(only: Option<&str>) -> Result<(), String> {
    Line::cargo(&["build", "--workspace", "--bins"]).run()?;
    let home = home();
    let home = home.to_string_lossy();
    if tools::has_nextest() {
        let chosen = only.map(|name| format!(" and test({name})")).unwrap_or_default();
        let chosen = format!("package(mendline-peers){chosen}");
        return Line::cargo(&["nextest", "run", "--workspace", "-E", &chosen]).env("MENDLINE_PEERS", &home).run();
    }
    let mut test = vec!["test", "--package", "mendline-peers", "--lib", "--tests"];
    test.extend(only);
    Line::cargo(&test).env("MENDLINE_PEERS", &home).run()
}

fn home() -> PathBuf {
    target().join("peers")
}

fn python(name: &str, lock: &str) -> Result<(), String> {
    let folder = home().join(name);
    let lock = root().join("tests/python").join(lock);
    if is_installed(&folder, &lock) {
        return Ok(());
    }
    cleared(&folder)?;
    eprintln!("installing {} into {}", lock.display(), folder.display());
    Line::new("python3", &["-m", "venv", &folder.to_string_lossy()]).run()?;
    let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"];
    let lock_text = lock.to_string_lossy();
    let args: Vec<&str> = quiet.into_iter().chain(["--requirement", &lock_text]).collect();
    Line::new(folder.join("bin/python"), &args).run()?;
    stamp(&folder, &lock)
}

fn node() -> Result<(), String> {
    let folder = home().join("node");
    let ours = root().join("tests/node");
    let lock = ours.join("package-lock.json");
    if !is_installed(&folder, &lock) {
        cleared(&folder)?;
        eprintln!("installing {} into {}", lock.display(), folder.display());
        for file in ["package.json", "package-lock.json", ".npmrc"] {
            copy(&ours.join(file), &folder.join(file))?;
        }
        Line::new("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
            .within(&folder)
            .run()?;
        stamp(&folder, &lock)?;
    }
    // A module finds its packages by the folder that it lies in, so our scripts lie beside the packages.
    for entry in fs::read_dir(&ours).map_err(|why| format!("{}: {why}", ours.display()))? {
        let path = entry.map_err(|why| why.to_string())?.path();
        if let (Some("mjs"), Some(name)) = (path.extension().and_then(|ext| ext.to_str()), path.file_name()) {
            copy(&path, &folder.join(name))?;
        }
    }
    Ok(())
}

/// The lock file that an installation was made from, written when it was complete.
fn stamp_of(folder: &Path) -> PathBuf {
    folder.join("installed-from.lock")
}

fn is_installed(folder: &Path, lock: &Path) -> bool {
    matches!((fs::read(stamp_of(folder)), fs::read(lock)), (Ok(there), Ok(wanted)) if there == wanted)
}

fn stamp(folder: &Path, lock: &Path) -> Result<(), String> {
    copy(lock, &stamp_of(folder))
}

fn cleared(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|why| format!("{} to {}: {why}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{cleared, is_installed, stamp};

    #[test]
    fn an_installation_counts_only_while_its_lock_file_is_unchanged() {
        let folder = std::env::temp_dir().join(format!("mendline-xtask-{}", std::process::id()));
        let lock = folder.with_extension("lock");
        fs::write(&lock, "one").unwrap();
        cleared(&folder).unwrap();
        assert!(!is_installed(&folder, &lock), "cut short before the stamp");
        stamp(&folder, &lock).unwrap();
        assert!(is_installed(&folder, &lock));
        fs::write(&lock, "two").unwrap();
        assert!(!is_installed(&folder, &lock), "the lock file changed");
        fs::remove_dir_all(&folder).unwrap();
        fs::remove_file(&lock).unwrap();
    }
}
