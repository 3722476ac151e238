//! The user's state directory and its ownership.
//!
//! The catalogue and the log files share one directory. Both use this module, so that they agree on its path and check
//! that no other user can write to it.

use std::ffi::OsString;
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

/// Checks that only this user can write to a file.
pub(crate) fn check_owner(metadata: &fs::Metadata) -> Result<(), &'static str> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        Err("it belongs to another user")
    } else if metadata.permissions().mode() & 0o022 != 0 {
        Err("other users can write to it")
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
