//! Installs other programs from lock files into their own folders.
//!
//! A complete installation contains a copy of each lock file. While the copies equal the lock files of the repository,
//! nothing is downloaded. A changed lock file or an incomplete installation starts again from an empty folder.
//! Downloads are retried.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::CommandLine;

/// The number of attempts.
const TRIES: u32 = 3;

/// Ensures that `folder` holds an installation of these lock files.
pub(crate) fn ensure(folder: &Path, locks: &[PathBuf], install: impl Fn() -> Result<(), String>) -> Result<(), String> {
    if locks.iter().all(|lock| is_same(lock, &stamp_of(folder, lock))) {
        return Ok(());
    }
    for lock in locks {
        eprintln!("installing {} into {}", lock.display(), folder.display());
    }
    let mut tries = 1;
    loop {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        }
        make(folder)?;
        match install() {
            Ok(()) => break,
            Err(why) if tries < TRIES => eprintln!("{why}: retrying"),
            Err(why) => return Err(why),
        }
        tries += 1;
    }
    make(&folder.join(STAMPS))?;
    locks.iter().try_for_each(|lock| copy(lock, &stamp_of(folder, lock)))
}

/// Installs the packages of the lock file in `from`.
pub(crate) fn npm(from: &Path, folder: &Path) -> Result<(), String> {
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        copy(&from.join(file), &folder.join(file))?;
    }
    // The output goes to stderr, because stdout may be reserved for a report.
    let npm = "npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2";
    CommandLine::new("sh", &["-c", npm]).within(folder).run()
}

/// Creates a virtual environment with the packages of this lock file.
pub(crate) fn pip(lock: &Path, folder: &Path) -> Result<(), String> {
    CommandLine::new("python3", &["-m", "venv", &folder.to_string_lossy()]).run()?;
    // A lock file names every package, so nothing is resolved.
    let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"];
    let lock = lock.to_string_lossy();
    let args: Vec<&str> = quiet.into_iter().chain(["--requirement", &lock]).collect();
    CommandLine::new(folder.join("bin/python"), &args).run()
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|why| format!("{} to {}: {why}", from.display(), to.display()))
}

/// The folder with the copies of the lock files.
const STAMPS: &str = "installed";

fn stamp_of(folder: &Path, lock: &Path) -> PathBuf {
    folder.join(STAMPS).join(lock.file_name().unwrap_or_default())
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn changed_or_incomplete_installation_is_repeated() {
        let home = std::env::temp_dir().join(format!("mendline-xtask-{}", std::process::id()));
        let (folder, locks) = (home.join("there"), [home.join("one.lock"), home.join("two.lock")]);
        make(&home).unwrap();
        locks.iter().for_each(|lock| fs::write(lock, "1").unwrap());
        let installed = Cell::new(0);
        // Succeeds from this attempt on.
        let ensured = |works: u32| {
            installed.set(0);
            ensure(&folder, &locks, || {
                installed.set(installed.get() + 1);
                assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "it starts from nothing");
                fs::write(folder.join("program"), "").unwrap();
                if installed.get() >= works { Ok(()) } else { Err("cut short".into()) }
            })
        };
        assert!(ensured(TRIES + 1).is_err());
        assert!(ensured(TRIES).is_ok());
        assert_eq!(installed.get(), TRIES, "it was cut short before, and works in the end");
        assert!(ensured(1).is_ok());
        assert_eq!(installed.get(), 0, "it is there");
        fs::write(&locks[1], "2").unwrap();
        assert!(ensured(1).is_ok());
        assert_eq!(installed.get(), 1, "a lock file has changed");
        fs::remove_dir_all(&home).unwrap();
    }
}
