//! Has the file changed?
//!
//! It is looked at now and then, not watched: editors replace files, mounts swap links, and a directory may not be there
//! yet, and each of these ends a watch without a word. A look costs one system call; only when what it sees is different
//! (time, size, or which file it is) is the file read, and only when its text is different has it changed.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What one look sees.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    file: (u64, u64),
}

/// A file that may change.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    seen: Option<Stamp>,
    text: String,
}

impl Watch {
    /// Looks at this file from now on; `text` is what stands in it.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Watch {
        // What was seen before the text was read may be older than the text: the first look reads it again.
        Watch { path: path.into(), seen: None, text: text.into() }
    }

    /// Takes a look. Says the new text if there is one. A file that is gone, or cannot be read for a moment while somebody
    /// writes it, has not changed: the next look will tell.
    pub fn look(&mut self) -> Option<crate::Source> {
        let now = stamp(&self.path)?;
        if self.seen.as_ref() == Some(&now) {
            return None;
        }
        let source = crate::Source::read(&self.path).ok()?;
        // Written while it was read: half of it may be new.
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

    /// Looks as if it had never looked before: whatever stands there is news.
    pub fn look_anew(&mut self) -> Option<crate::Source> {
        let source = crate::Source::read(&self.path).ok()?;
        self.seen = stamp(&self.path);
        source.text().clone_into(&mut self.text);
        Some(source)
    }

    /// Which file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let seen = std::fs::metadata(path).ok()?;
    Some(Stamp { modified: seen.modified().ok(), length: seen.len(), file: (seen.dev(), seen.ino()) })
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
    fn a_new_text_is_news_once_and_a_mere_touch_is_none() {
        let (directory, mut watch) = watched();
        assert_eq!(seen(&mut watch), None);
        std::fs::write(watch.path(), "three").unwrap();
        assert_eq!(seen(&mut watch).as_deref(), Some("three"));
        assert_eq!(seen(&mut watch), None);
        let file = std::fs::File::options().write(true).open(watch.path()).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(seen(&mut watch), None, "another time, the same text");
        drop(directory);
    }

    #[test]
    fn an_editor_that_replaces_the_file_is_noticed_even_with_the_same_time_and_length() {
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
    fn a_file_that_is_gone_for_a_while_has_not_changed() {
        let (_directory, mut watch) = watched();
        std::fs::remove_file(watch.path()).unwrap();
        assert_eq!(seen(&mut watch), None);
        std::fs::write(watch.path(), "one").unwrap();
        assert_eq!(seen(&mut watch), None);
        std::fs::write(watch.path(), "two!").unwrap();
        assert_eq!(seen(&mut watch).as_deref(), Some("two!"));
    }

    #[test]
    fn a_link_that_is_pointed_elsewhere_is_noticed() {
        let (directory, mut watch) = watched();
        assert_eq!(seen(&mut watch), None);
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "two").unwrap();
        std::fs::remove_file(watch.path()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, watch.path()).unwrap();
        assert_eq!(seen(&mut watch).as_deref(), Some("two"));
    }
}
