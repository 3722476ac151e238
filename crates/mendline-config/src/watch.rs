//! Detection of changes of a file.
//!
//! The file is polled, not watched: editors replace files, mounts swap links, and a directory may not exist yet, and
//! each of these silently ends a watch. A poll costs one system call. The file is read only if its metadata (time, size
//! or inode) changed, and it has changed only if its text differs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mendline::os::files::identity;

/// The metadata that a poll compares.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    file: (u64, u64),
}

/// A polled file.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    seen: Option<Stamp>,
    text: String,
}

impl Watch {
    /// Starts to poll this file; `text` is its current text.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Watch {
        // The metadata may be older than the text, so the first poll reads the file.
        Watch { path: path.into(), seen: None, text: text.into() }
    }

    /// Polls the file. Returns its new content if it changed. A file that is missing or cannot be read has not changed;
    /// the next poll follows.
    pub fn look(&mut self) -> Option<crate::Source> {
        let now = stamp(&self.path)?;
        if self.seen.as_ref() == Some(&now) {
            return None;
        }
        let source = crate::Source::read(&self.path).ok()?;
        // The file was written while it was read.
        if stamp(&self.path).as_ref() != Some(&now) {
            return None;
        }
        self.seen = Some(now);
        if source.text() == self.text {
            return None;
        }
        source.text().clone_into(&mut self.text);
        Some(source)
    }

    /// Reads the file and returns its content, changed or not.
    pub fn look_anew(&mut self) -> Option<crate::Source> {
        let source = crate::Source::read(&self.path).ok()?;
        self.seen = stamp(&self.path);
        source.text().clone_into(&mut self.text);
        Some(source)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let seen = std::fs::metadata(path).ok()?;
    Some(Stamp { modified: seen.modified().ok(), length: seen.len(), file: identity(&seen) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> (tempfile::TempDir, Watch) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        std::fs::write(&path, "one").unwrap();
        let watch = Watch::new(path, "one");
        (directory, watch)
    }

    fn seen(watch: &mut Watch) -> Option<String> {
        watch.look().map(|source| source.text().to_owned())
    }

    #[test]
    fn new_text_is_reported_once_and_touch_is_not() {
        let (directory, mut watch) = watched();
        assert_eq!(seen(&mut watch), None);
        std::fs::write(watch.path(), "three").unwrap();
        assert_eq!(seen(&mut watch).as_deref(), Some("three"));
        assert_eq!(seen(&mut watch), None);
        let file = std::fs::File::options().write(true).open(watch.path()).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(seen(&mut watch), None, "the time changed, the text did not");
        drop(directory);
    }

    #[test]
    fn replaced_file_is_detected_despite_same_time_and_length() {
        let (directory, mut watch) = watched();
        assert_eq!(seen(&mut watch), None);
        let modified = std::fs::metadata(watch.path()).unwrap().modified().unwrap();
        let other = directory.path().join("other");
        std::fs::write(&other, "two").unwrap();
        std::fs::File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
        std::fs::rename(&other, watch.path()).unwrap();
        assert_eq!(seen(&mut watch).as_deref(), Some("two"));
    }

    #[test]
    fn missing_file_has_not_changed() {
        let (_directory, mut watch) = watched();
        std::fs::remove_file(watch.path()).unwrap();
        assert_eq!(seen(&mut watch), None);
        std::fs::write(watch.path(), "one").unwrap();
        assert_eq!(seen(&mut watch), None);
        std::fs::write(watch.path(), "two!").unwrap();
        assert_eq!(seen(&mut watch).as_deref(), Some("two!"));
    }

    #[test]
    fn changed_symlink_target_is_detected() {
        let (directory, mut watch) = watched();
        assert_eq!(seen(&mut watch), None);
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "two").unwrap();
        std::fs::remove_file(watch.path()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, watch.path()).unwrap();
        assert_eq!(seen(&mut watch).as_deref(), Some("two"));
    }
}
