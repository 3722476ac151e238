//! The backups that `wrap` and `unwrap` leave beside the files they change: what there is, and its end.
//!
//! A backup holds what a file said before, tokens included that have left it since. So `unwrap` names every one of them, and
//! `unwrap --clean` deletes them. It deletes nothing but ordinary files that bear the names of our own backups, beside the
//! files that were looked at; and none of a file that may still need it.

use std::path::{Path, PathBuf};

use super::file::backups;

/// The files whose backups are meant.
#[derive(Default)]
pub(crate) struct Backups {
    files: Vec<(PathBuf, Option<&'static str>)>,
}

impl Backups {
    /// Adds a file, and why its backups are to be kept, if they are.
    pub(crate) fn add(&mut self, real: &Path, kept: Option<&'static str>) {
        self.files.push((real.to_owned(), kept));
    }

    /// All that there are now.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        self.files.iter().flat_map(|(real, _)| backups(real)).collect()
    }

    /// Those that may be deleted.
    pub(crate) fn free(&self) -> Vec<PathBuf> {
        self.files.iter().filter(|(_, kept)| kept.is_none()).flat_map(|(real, _)| backups(real)).collect()
    }

    /// Those that are kept, each with the reason.
    pub(crate) fn kept(&self) -> Vec<(PathBuf, &'static str)> {
        let of = |(real, kept): &(PathBuf, Option<&'static str>)| {
            let reason = kept.unwrap_or_default();
            let found = if kept.is_some() { backups(real) } else { Vec::new() };
            found.into_iter().map(|backup| (backup, reason)).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of).collect()
    }
}
