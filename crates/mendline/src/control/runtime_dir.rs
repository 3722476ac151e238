//! The directory of the sockets of running processes.
//!
//! `$MENDLINE_RUNTIME_DIR` if it is set. Otherwise the first usable one of:
//! ```text
//! $XDG_RUNTIME_DIR/mendline
//! /run/user/UID/mendline
//! TMP/mendline-UID
//! ```
//! Many clients start their servers with an almost empty environment, so a process may lack a variable that the user's
//! shell has. For this reason the second candidate exists, and clients look for sockets in all candidates.
//!
//! A directory is used only if it is a directory and not a symbolic link, belongs to this user, and is closed to
//! others. In a temporary directory another user could have created it.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The variable that names the directory.
pub const VARIABLE: &str = "MENDLINE_RUNTIME_DIR";

/// Returns the candidates for the directory, in order of preference.
pub fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(only) = path(VARIABLE) {
        return vec![only];
    }
    let uid = rustix::process::geteuid().as_raw();
    let in_temporary = |parent: PathBuf| parent.join(format!("mendline-{uid}"));
    let mut directories = Vec::new();
    directories.extend(path("XDG_RUNTIME_DIR").map(|parent| parent.join("mendline")));
    directories.push(PathBuf::from(format!("/run/user/{uid}/mendline")));
    directories.push(in_temporary(std::env::temp_dir()));
    directories.push(in_temporary(PathBuf::from("/tmp")));
    let mut once = Vec::new();
    for directory in directories {
        if !once.contains(&directory) {
            once.push(directory);
        }
    }
    once
}

/// Returns the first candidate that exists or can be created and passes [`verify`], or the errors of all of them.
pub fn first_usable(candidates: &[PathBuf]) -> Result<PathBuf, String> {
    let mut errors = Vec::new();
    for directory in candidates {
        match create(directory).map_err(|error| error.to_string()).and_then(|()| verify(directory)) {
            Ok(()) => return Ok(directory.clone()),
            Err(error) => errors.push(format!("{}: {error}", directory.display())),
        }
    }
    Err(errors.join("; "))
}

/// Checks that a directory is private to this user. Returns the reason if it is not.
pub fn verify(directory: &Path) -> Result<(), String> {
    let metadata = std::fs::symlink_metadata(directory).map_err(|error| error.to_string())?;
    let uid = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        Err("it is not a directory".to_owned())
    } else if metadata.uid() != uid {
        Err(format!("it belongs to another user ({})", metadata.uid()))
    } else if metadata.mode() & 0o077 != 0 {
        Err(format!(
            "others may look into it (mode {:03o}); `chmod 700 {}` closes it",
            metadata.mode() & 0o777,
            directory.display()
        ))
    } else {
        Ok(())
    }
}

fn create(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn named(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn variable_replaces_all_other_candidates() {
        let directories = candidates(named(&[(VARIABLE, "/somewhere"), ("XDG_RUNTIME_DIR", "/run/user/1")]));
        assert_eq!(directories, [PathBuf::from("/somewhere")]);
    }

    #[test]
    fn runtime_directory_of_the_user_precedes_temporary_directories() {
        let directories = candidates(named(&[("XDG_RUNTIME_DIR", "/run/elsewhere")]));
        assert_eq!(directories[0], PathBuf::from("/run/elsewhere/mendline"));
        assert!(directories[1].starts_with("/run/user"), "{directories:?}");
        assert!(directories.last().unwrap().to_string_lossy().contains("/mendline-"), "{directories:?}");
    }

    #[test]
    fn relative_path_in_the_variable_is_ignored() {
        assert!(candidates(named(&[(VARIABLE, "here")])).len() > 1);
    }

    #[test]
    fn directory_is_created_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("mendline");
        assert_eq!(first_usable(std::slice::from_ref(&directory)), Ok(directory.clone()));
        assert_eq!(std::fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn directory_readable_by_others_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let (open, good) = (folder.path().join("open"), folder.path().join("good"));
        std::fs::create_dir(&open).unwrap();
        set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(first_usable(&[open.clone(), good.clone()]), Ok(good));
        let error = first_usable(&[open]).unwrap_err();
        assert!(error.contains("mode 755") && error.contains("chmod 700"), "{error}");
    }

    #[test]
    fn symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        first_usable(std::slice::from_ref(&real)).unwrap();
        symlink(&real, &link).unwrap();
        assert!(first_usable(&[link]).unwrap_err().contains("not a directory"));
    }

    #[test]
    fn directory_of_another_user_is_rejected() {
        if rustix::process::geteuid().is_root() {
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("theirs");
            first_usable(std::slice::from_ref(&directory)).unwrap();
            std::os::unix::fs::chown(&directory, Some(12345), None).unwrap();
            assert!(verify(&directory).unwrap_err().contains("another user (12345)"));
        } else {
            assert!(verify(Path::new("/")).unwrap_err().contains("another user (0)"));
        }
    }
}
