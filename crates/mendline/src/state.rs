//! The user's state directory and its ownership.
//!
//! The catalogue and the log files share one directory. Both use this module, so that they agree on its path and check
//! that no other user can write to it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::os::directories;
use crate::os::files::{check_owner, create_private_directories};

/// Returns the user's state directory as the environment defines it.
pub fn state_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = variable("MENDLINE_STATE_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| directories::state(variable))
}

/// Creates a directory that only this user may access, or checks that no other user can write to an existing one.
pub(crate) fn own_folder(path: &Path) -> io::Result<()> {
    create_private_directories(path)?;
    let metadata = fs::metadata(path)?;
    check_owner(&metadata).map_err(|why| io::Error::other(format!("{}: {why}", path.display())))
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
