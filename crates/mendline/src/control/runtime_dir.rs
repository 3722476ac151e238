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
use std::fmt;
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

/// An error: a directory is not private to this user.
#[derive(Debug)]
pub enum NotPrivate {
    /// It cannot be created or inspected.
    Io(io::Error),
    /// It is a file or a symbolic link.
    NotADirectory,
    /// It belongs to another user.
    OtherOwner {
        /// The id of that user.
        uid: u32,
    },
    /// Others have access.
    OpenToOthers {
        /// The directory.
        directory: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

impl fmt::Display for NotPrivate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotPrivate::Io(error) => error.fmt(f),
            NotPrivate::NotADirectory => f.write_str("it is not a directory"),
            NotPrivate::OtherOwner { uid } => write!(f, "it belongs to another user ({uid})"),
            NotPrivate::OpenToOthers { directory, mode } => {
                let directory = directory.display();
                write!(f, "others may look into it (mode {mode:03o}); `chmod 700 {directory}` closes it")
            }
        }
    }
}

impl std::error::Error for NotPrivate {}

/// An error: no candidate can be used. Each candidate has its reason.
#[derive(Debug)]
pub struct NoneUsable(pub Vec<(PathBuf, NotPrivate)>);

impl fmt::Display for NoneUsable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (directory, why)) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {why}", directory.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for NoneUsable {}

/// Returns the first candidate that exists or can be created and passes [`verify`], or the errors of all of them.
pub fn first_usable(candidates: &[PathBuf]) -> Result<PathBuf, NoneUsable> {
    let mut errors = Vec::new();
    for directory in candidates {
        match create(directory).map_err(NotPrivate::Io).and_then(|()| verify(directory)) {
            Ok(()) => return Ok(directory.clone()),
            Err(error) => errors.push((directory.clone(), error)),
        }
    }
    Err(NoneUsable(errors))
}

/// Checks that a directory is private to this user. Returns the reason if it is not.
pub fn verify(directory: &Path) -> Result<(), NotPrivate> {
    let metadata = std::fs::symlink_metadata(directory).map_err(NotPrivate::Io)?;
    let uid = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        Err(NotPrivate::NotADirectory)
    } else if metadata.uid() != uid {
        Err(NotPrivate::OtherOwner { uid: metadata.uid() })
    } else if metadata.mode() & 0o077 != 0 {
        Err(NotPrivate::OpenToOthers { directory: directory.to_owned(), mode: metadata.mode() & 0o777 })
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
        assert_eq!(first_usable(std::slice::from_ref(&directory)).unwrap(), directory);
        assert_eq!(std::fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn directory_readable_by_others_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let (open, good) = (folder.path().join("open"), folder.path().join("good"));
        std::fs::create_dir(&open).unwrap();
        set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(first_usable(&[open.clone(), good.clone()]).unwrap(), good);
        let error = first_usable(&[open.clone(), open.clone()]).unwrap_err();
        let open = open.display();
        let each = format!("{open}: others may look into it (mode 755); `chmod 700 {open}` closes it");
        assert_eq!(error.to_string(), format!("{each}; {each}"));
    }

    #[test]
    fn symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        first_usable(std::slice::from_ref(&real)).unwrap();
        symlink(&real, &link).unwrap();
        assert!(first_usable(&[link]).unwrap_err().to_string().ends_with("link: it is not a directory"));
    }

    #[test]
    fn directory_of_another_user_is_rejected() {
        if rustix::process::geteuid().is_root() {
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("theirs");
            first_usable(std::slice::from_ref(&directory)).unwrap();
            std::os::unix::fs::chown(&directory, Some(12345), None).unwrap();
            assert!(matches!(verify(&directory), Err(NotPrivate::OtherOwner { uid: 12345 })));
        } else {
            assert!(matches!(verify(Path::new("/")), Err(NotPrivate::OtherOwner { uid: 0 })));
        }
    }
}
