//! The directory of the sockets of running processes.
//!
//! `$MENDLINE_RUNTIME_DIR` if it is set. Otherwise the first usable one of [`directories::runtime`]. Processes may have
//! different environments, so clients look for sockets in all of them.
//!
//! A directory is used only if it is a directory and not a symbolic link, belongs to this user, and is closed to
//! others. In a temporary directory another user could have created it.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::os::directories;
use crate::os::files::{Exposure, create_private_directory, exposure};

/// The variable that names the directory.
pub const VARIABLE: &str = "MENDLINE_RUNTIME_DIR";

/// Returns the candidates for the directory, in order of preference.
pub fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(only) = variable(VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute()) {
        return vec![only];
    }
    directories::runtime(variable)
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
pub(super) fn first_usable(candidates: &[PathBuf]) -> Result<PathBuf, NoneUsable> {
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
    if !metadata.is_dir() {
        return Err(NotPrivate::NotADirectory);
    }
    match exposure(&metadata) {
        Some(Exposure::OtherOwner { uid }) => Err(NotPrivate::OtherOwner { uid }),
        Some(Exposure::OpenToOthers { mode }) => {
            Err(NotPrivate::OpenToOthers { directory: directory.to_owned(), mode })
        }
        None => Ok(()),
    }
}

fn create(directory: &Path) -> io::Result<()> {
    match create_private_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
