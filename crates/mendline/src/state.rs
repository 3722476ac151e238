//! The user's state directory and its ownership.
//!
//! The catalogue and the log files share one directory. Both use this module, so that they agree on its path and check
//! that no other user can write to it.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Returns the user's state directory as the environment defines it.
pub fn state_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("MENDLINE_STATE_DIR")
        .or_else(|| Some(path("XDG_STATE_HOME")?.join("mendline")))
        .or_else(|| Some(path("HOME")?.join(".local/state/mendline")))
}

/// Creates a directory that only this user may access, or checks that no other user can write to an existing one.
pub(crate) fn own_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = fs::metadata(path)?;
    check_owner(&metadata).map_err(|why| io::Error::other(format!("{}: {why}", path.display())))
}

/// An error: another user can write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOwn {
    OtherOwner,
    WritableByOthers,
}

impl fmt::Display for NotOwn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotOwn::OtherOwner => "it belongs to another user",
            NotOwn::WritableByOthers => "other users can write to it",
        })
    }
}

impl std::error::Error for NotOwn {}

/// Checks that only this user can write to a file.
pub(crate) fn check_owner(metadata: &fs::Metadata) -> Result<(), NotOwn> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        Err(NotOwn::OtherOwner)
    } else if metadata.permissions().mode() & 0o022 != 0 {
        Err(NotOwn::WritableByOthers)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_directory_follows_environment_and_is_never_relative() {
        let with = |variables: &'static [(&str, &str)]| {
            state_directory(move |name| {
                variables.iter().find(|(it, _)| *it == name).map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(with(&[("MENDLINE_STATE_DIR", "/s"), ("XDG_STATE_HOME", "/x")]), Some("/s".into()));
        assert_eq!(with(&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")]), Some("/x/mendline".into()));
        assert_eq!(with(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]), Some("/h/.local/state/mendline".into()));
        assert_eq!(with(&[]), None);
    }
}
