//! The backups that `wrap` and `unwrap` leave beside the files that they change.
//!
//! A backup holds the previous content of a file, including tokens that were removed since. So `unwrap` lists all
//! backups, and `unwrap --clean` deletes them. It deletes only regular files with the names of our own backups, beside
//! the files that were examined, and none of a file that may still need it.

use std::path::{Path, PathBuf};

use super::file::backups;

/// The files whose backups are listed.
#[derive(Default)]
pub(crate) struct Backups {
    files: Vec<(PathBuf, Option<&'static str>)>,
}

impl Backups {
    /// Adds a file, with the reason to keep its backups, if there is one.
    pub(crate) fn add(&mut self, real: &Path, kept: Option<&'static str>) {
        self.files.push((real.to_owned(), kept));
    }

    /// Returns all existing backups.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        self.files.iter().flat_map(|(real, _)| backups(real)).collect()
    }

    /// Returns the backups that may be deleted.
    pub(crate) fn free(&self) -> Vec<PathBuf> {
        self.files.iter().filter(|(_, kept)| kept.is_none()).flat_map(|(real, _)| backups(real)).collect()
    }

    /// Returns the backups that are kept, each with the reason.
    pub(crate) fn kept(&self) -> Vec<(PathBuf, &'static str)> {
        let of = |(real, kept): &(PathBuf, Option<&'static str>)| {
            let reason = kept.unwrap_or_default();
            let found = if kept.is_some() { backups(real) } else { Vec::new() };
            found.into_iter().map(|backup| (backup, reason)).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of).collect()
    }
}
