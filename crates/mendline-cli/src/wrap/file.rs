//! Reading of a client's file, and its atomic replacement.
//!
//! New content goes to a new file beside the old one, which is then renamed: a client that reads at that moment gets
//! the old file or the new one. Mode and owner stay. A symbolic link stays, and its target is replaced. Before the
//! rename the old file is compared once more, because clients write their files, too, and their changes must not be
//! lost.
//!
//! The old content stays beside the new one as a backup that only its owner can read: it may hold tokens that were
//! removed since. The number of backups is limited: an existing one with the same content is reused, and none is ever
//! overwritten. `unwrap` lists them, and `unwrap --clean` deletes them.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use mendline::os::files::{Permissions, create_like, make_private};

/// Maximum size of a client's file.
const LARGEST: u64 = 32 << 20;

/// Maximum number of backups of a file.
const MOST_BACKUPS: u32 = 9;

/// A file that was read.
pub(crate) struct Source {
    /// The path with links resolved.
    pub(crate) real: PathBuf,
    pub(crate) text: String,
}

/// The reason why a file was not replaced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotWritten {
    /// Another program has changed it since it was read.
    Changed,
    Other(String),
}

impl From<String> for NotWritten {
    fn from(reason: String) -> NotWritten {
        NotWritten::Other(reason)
    }
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWritten::Changed => {
                f.write_str("another program has changed it meanwhile; nothing was written, try again")
            }
            NotWritten::Other(reason) => f.write_str(reason),
        }
    }
}

/// Reads a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Source>, String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err("it is a link to nothing".to_owned()),
        Err(error) => return Err(with_cause("it cannot be found", &error)),
    };
    let about = real.metadata().map_err(|error| with_cause("it cannot be looked at", &error))?;
    if about.is_dir() {
        return Err("it is a directory".to_owned());
    }
    if !about.is_file() {
        return Err("it is not an ordinary file".to_owned());
    }
    if about.len() > LARGEST {
        return Err(format!("it is larger than {} MiB", LARGEST >> 20));
    }
    let bytes = fs::read(&real).map_err(|error| with_cause("it cannot be read", &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(Source { real, text })),
        Err(error) => Err(format!("it is not UTF-8 (byte {})", error.utf8_error().valid_up_to() + 1)),
    }
}

impl Source {
    /// Replaces the content of the file, and returns the path of the backup.
    pub(crate) fn replace(&self, text: &str) -> Result<PathBuf, NotWritten> {
        let about = self.real.metadata().map_err(|error| with_cause("it cannot be looked at", &error))?;
        if about.permissions().readonly() {
            return Err("it is read-only".to_owned().into());
        }
        let fresh = Fresh::write(&self.real, text, &about)?;
        for backup in backups(&self.real) {
            // Backups of an earlier version had the mode of their file. An error is ignored.
            let _ = make_private(&backup);
        }
        let (backup, is_new) = self.keep(&about)?;
        if fs::read(&self.real).ok().as_deref() != Some(self.text.as_bytes()) {
            if is_new {
                let _ = fs::remove_file(&backup);
            }
            return Err(NotWritten::Changed);
        }
        fresh.take_the_place_of(&self.real)?;
        Ok(backup)
    }

    /// Keeps the old content in a backup. Returns its path, and whether it is new.
    fn keep(&self, about: &Metadata) -> Result<(PathBuf, bool), String> {
        for number in 1..=MOST_BACKUPS {
            let path = backup_of(&self.real, number);
            match create_like(&path, about, Permissions::Private) {
                Ok(mut file) => {
                    let written = file.write_all(self.text.as_bytes()).and_then(|()| file.sync_all());
                    written.map_err(|error| {
                        let _ = fs::remove_file(&path);
                        with_cause("its backup cannot be written", &error)
                    })?;
                    return Ok((path, true));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if fs::read(&path).is_ok_and(|kept| kept == self.text.as_bytes()) {
                        return Ok((path, false));
                    }
                }
                Err(error) => return Err(with_cause("no backup can be made beside it", &error)),
            }
        }
        Err(format!("there are {MOST_BACKUPS} backups beside it already (*.mendline-backup-*); remove some"))
    }
}

/// A new file beside the old one, before the rename.
struct Fresh(PathBuf);

impl Fresh {
    fn write(real: &Path, text: &str, about: &Metadata) -> Result<Fresh, String> {
        let path = beside(real, |name| format!(".{name}.mendline-{}-{:08x}", std::process::id(), fastrand::u32(..)));
        let mut file = create_like(&path, about, Permissions::Same).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => "it belongs to another user, or its directory is read-only".to_owned(),
            _ => with_cause("no file can be made beside it", &error),
        })?;
        let fresh = Fresh(path);
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| with_cause("it cannot be written", &error))?;
        Ok(fresh)
    }

    fn take_the_place_of(self, real: &Path) -> Result<(), String> {
        fs::rename(&self.0, real).map_err(|error| with_cause("it cannot be replaced", &error))?;
        // The rename is durable only when the directory is synced; an error there is ignored.
        if let Some(folder) = real.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // After the rename there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns whether a path leads through a symbolic link. Links at or above `root` do not count.
pub(crate) fn is_through_a_link(path: &Path, root: Option<&Path>) -> bool {
    let Ok(path) = std::path::absolute(path) else { return false };
    let is_link = |part: &Path| part.symlink_metadata().is_ok_and(|about| about.is_symlink());
    path.ancestors().take_while(|part| Some(*part) != root).any(is_link)
}

/// Returns the backups of a file. Links and directories with such names do not count.
pub(crate) fn backups(real: &Path) -> Vec<PathBuf> {
    let all = (1..=MOST_BACKUPS).map(|number| backup_of(real, number));
    all.filter(|path| path.symlink_metadata().is_ok_and(|about| about.is_file())).collect()
}

fn backup_of(real: &Path, number: u32) -> PathBuf {
    beside(real, |name| format!("{name}.mendline-backup-{number}"))
}

fn beside(path: &Path, name: impl Fn(&str) -> String) -> PathBuf {
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(name(&own))
}

fn with_cause(what: &str, error: &io::Error) -> String {
    format!("{what}: {error}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn source(path: &Path) -> Source {
        read(path).unwrap().unwrap()
    }

    #[test]
    fn s11_file_keeps_its_mode_and_its_backup_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let backup = source(&path).replace("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_to_string(&backup).unwrap(), "old");
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        assert_eq!((mode(&path), mode(&backup)), (0o640, 0o600));
        assert_eq!(names(folder.path()), ["mcp.json", "mcp.json.mendline-backup-1"]);
        // Backups of an earlier version had the mode of their file.
        fs::set_permissions(&backup, fs::Permissions::from_mode(0o644)).unwrap();
        let second = source(&path).replace("newer").unwrap();
        assert_eq!((mode(&backup), mode(&second)), (0o600, 0o600));
    }

    #[test]
    fn s11_only_ordinary_files_with_our_names_are_backups() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a", "a.mendline-backup-1", "a.mendline-backup-9", "a.mendline-backup-10", "b.mendline-backup-1"] {
            fs::write(at(name), "x").unwrap();
        }
        fs::create_dir(at("a.mendline-backup-2")).unwrap();
        std::os::unix::fs::symlink("b.mendline-backup-1", at("a.mendline-backup-3")).unwrap();
        assert_eq!(backups(&at("a")), [at("a.mendline-backup-1"), at("a.mendline-backup-9")]);
    }

    #[test]
    fn owner_of_the_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let owner = path.metadata().unwrap();
        // Only root can give a file away; for other users this tests their own file.
        let _ = std::os::unix::fs::chown(&path, Some(12_345), Some(12_346));
        let given = path.metadata().unwrap();
        let is_root = owner.uid() == 0;
        assert_eq!(given.uid() == 12_345, is_root);
        let backup = source(&path).replace("new").unwrap();
        for file in [&path, &backup] {
            let now = file.metadata().unwrap();
            assert_eq!((now.uid(), now.gid()), (given.uid(), given.gid()), "{}", file.display());
        }
    }

    #[test]
    fn backups_are_limited_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "0").unwrap();
        for round in 0..4 {
            let (from, to) = (round % 2, (round + 1) % 2);
            assert_eq!(fs::read_to_string(source(&path).replace(&to.to_string()).unwrap()).unwrap(), from.to_string());
        }
        assert_eq!(names(folder.path()).len(), 3, "back and forth takes two backups");
        for round in 2..9 {
            source(&path).replace(&round.to_string()).unwrap();
        }
        let full = names(folder.path());
        let at_the_limit =
            (9..20).find_map(|round: i32| source(&path).replace(&round.to_string()).err()).unwrap().to_string();
        assert!(at_the_limit.contains("9 backups"), "{at_the_limit}");
        assert!(names(folder.path()).len() <= 10 && full.len() <= 10);
        assert_eq!(fs::read_to_string(folder.path().join("a.mendline-backup-1")).unwrap(), "0");
    }

    #[test]
    fn symbolic_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        source(&link).replace("new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert!(real.with_file_name("real.mendline-backup-1").exists());
    }

    #[test]
    fn concurrent_change_of_the_file_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let source = source(&path);
        fs::write(&path, "theirs").unwrap();
        assert_eq!(source.replace("ours"), Err(NotWritten::Changed));
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("theirs", 1));
    }

    #[test]
    fn unusable_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let complaint = |name: &str| read(&at(name)).err().unwrap();
        assert!(read(&at("nothing")).unwrap().is_none());
        assert!(complaint(".").contains("directory"));
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        assert!(complaint("loop").contains("cannot be found"));
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        assert!(complaint("dangling").contains("link to nothing"));
        fs::write(at("latin"), b"{\"a\": \"\xe4\"}").unwrap();
        assert!(complaint("latin").contains("not UTF-8 (byte 8)"));
        File::create(at("huge")).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(complaint("huge").contains("larger than 32 MiB"));
        assert!(read(Path::new("/dev/null")).err().unwrap().contains("ordinary"));
        fs::write(at("fixed"), "old").unwrap();
        fs::set_permissions(at("fixed"), fs::Permissions::from_mode(0o444)).unwrap();
        assert!(source(&at("fixed")).replace("new").unwrap_err().to_string().contains("read-only"));
        assert_eq!(fs::read_to_string(at("fixed")).unwrap(), "old");
    }
}
