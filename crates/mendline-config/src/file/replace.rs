//! The atomic replacement of a file that other programs write, too.
//!
//! The new text goes to a new file beside the old one, which is then renamed: a program that reads at that moment gets
//! the old text or the new one. Before that, the old file is read once more: a change that another program made meanwhile
//! must not be lost, so the edit is made again, on the new text. Processes of Mendline exclude each other by a lock on the
//! directory. A symbolic link stays, and its target is replaced.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mendline::os::files::{Permissions, create_like, create_private_directories, new_private_file};

use super::text_of;

/// The time for which another process of Mendline may hold the lock. Without the lock the comparison still protects.
const LOCK_WITHIN: Duration = Duration::from_secs(10);

/// The pause between two attempts to lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The most edits of one file, if other programs keep changing it.
const MOST_EDITS: u32 = 5;

/// The reason why a file was not changed.
#[derive(Debug)]
pub enum ReplaceError<E> {
    /// The edit was not possible.
    Edit(E),
    /// The file cannot be read.
    Read(io::Error),
    /// The file, or its directory, cannot be written.
    Write(io::Error),
    /// Another program changes the file again and again.
    Contended,
}

impl<E: fmt::Display> fmt::Display for ReplaceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplaceError::Edit(error) => error.fmt(f),
            ReplaceError::Read(error) => write!(f, "it cannot be read: {error}"),
            ReplaceError::Write(error) => match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    write!(f, "it cannot be written: {error}; check the permissions of the file and of its directory")
                }
                _ => write!(f, "it cannot be written: {error}"),
            },
            ReplaceError::Contended => f.write_str("another program keeps changing it; nothing was written, try again"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for ReplaceError<E> {}

/// A new text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewText {
    /// The text.
    pub text: String,
    /// Only the owner may read the file: it holds secrets.
    pub is_private: bool,
}

/// Changes the file by an edit of its text. The edit is `None` for a file that does not exist, and returns `None` to
/// leave it unchanged. The edit may be made more than once. Returns whether the file was written.
pub fn replace<E>(
    path: &Path,
    mut edit: impl FnMut(Option<&str>) -> Result<Option<NewText>, E>,
) -> Result<bool, ReplaceError<E>> {
    let real = target_of(path).map_err(ReplaceError::Read)?;
    let folder = real.parent().unwrap_or(Path::new("."));
    if !folder.exists() {
        // The edit is tried first, so that an impossible one leaves no directory.
        edit(None).map_err(ReplaceError::Edit)?;
        create_private_directories(folder).map_err(ReplaceError::Write)?;
    }
    let _lock = lock(folder);
    for _ in 0..MOST_EDITS {
        let before = read(&real).map_err(ReplaceError::Read)?;
        let Some(new) = edit(before.as_deref()).map_err(ReplaceError::Edit)? else { return Ok(false) };
        let fresh = Fresh::write(&real, &new).map_err(ReplaceError::Write)?;
        if read(&real).map_err(ReplaceError::Read)? != before {
            continue;
        }
        match fresh.take_the_place_of(&real, before.is_none()) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(ReplaceError::Write(error)),
        }
    }
    Err(ReplaceError::Contended)
}

/// Follows symbolic links, also to a file that does not exist yet.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(path) {
            Ok(link) => Ok(path.parent().unwrap_or(Path::new("")).join(link)),
            Err(_) => std::path::absolute(path),
        },
        found => found,
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match text_of(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks a directory, if that is possible in time. The lock ends with the returned file.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    let deadline = Instant::now() + LOCK_WITHIN;
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_PAUSE),
            Err(_) => return None,
        }
    }
}

/// A new file beside the old one, before it takes its place.
struct Fresh(PathBuf);

impl Fresh {
    fn write(real: &Path, new: &NewText) -> io::Result<Fresh> {
        let own = real.file_name().unwrap_or_default().to_string_lossy();
        let path = real.with_file_name(format!(".{own}.mendline-{}-{:?}", std::process::id(), thread::current().id()));
        // A file with this name is left from a process that was killed.
        let _ = fs::remove_file(&path);
        let mut file = match real.metadata() {
            Ok(old) if old.permissions().readonly() => {
                return Err(io::Error::new(ErrorKind::PermissionDenied, "it is read-only"));
            }
            Ok(old) => {
                let permissions = if new.is_private { Permissions::Private } else { Permissions::Same };
                create_like(&path, &old, permissions)?
            }
            Err(_) => new_private_file().write(true).open(&path)?,
        };
        let fresh = Fresh(path);
        file.write_all(new.text.as_bytes())?;
        file.sync_all()?;
        Ok(fresh)
    }

    fn take_the_place_of(self, real: &Path, is_new: bool) -> io::Result<()> {
        if is_new {
            // A link does not replace a file that another program has made meanwhile. Some file systems have no links.
            match fs::hard_link(&self.0, real) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => fs::rename(&self.0, real)?,
                linked => linked?,
            }
        } else {
            fs::rename(&self.0, real)?;
        }
        // The change is durable only when the directory is synced; an error there is ignored.
        if let Some(folder) = real.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn text(text: &str) -> Result<Option<NewText>, Infallible> {
        Ok(Some(NewText { text: text.to_owned(), is_private: false }))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn new_file_is_private_and_an_old_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.json");
        assert!(replace(&path, |before| text(before.unwrap_or("first"))).unwrap());
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o7777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, |_| text("second")).unwrap();
        assert_eq!((mode(&path), fs::read_to_string(&path).unwrap().as_str()), (0o644, "second"));
        let private = |_: Option<&str>| Ok::<_, Infallible>(Some(NewText { text: "third".into(), is_private: true }));
        replace(&path, private).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(names(path.parent().unwrap()), ["config.json"], "nothing else is left");
    }

    #[test]
    fn change_of_another_program_is_edited_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let mut rounds = 0;
        let edit = |before: Option<&str>| {
            rounds += 1;
            if rounds == 1 {
                fs::write(&path, "theirs").unwrap();
            }
            text(&format!("{} and ours", before.unwrap()))
        };
        assert!(replace(&path, edit).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs and ours");
        let mut round = 0;
        let contended = replace(&path, |_| {
            round += 1;
            fs::write(&path, round.to_string()).unwrap();
            text("ours")
        });
        assert!(matches!(contended, Err(ReplaceError::Contended)));
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names(folder.path()).len()), ("5", 1));
    }

    #[test]
    fn file_that_appears_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let edit = |before: Option<&str>| {
            if before.is_none() {
                fs::write(&path, "theirs").unwrap();
            }
            text(&format!("{}+ours", before.unwrap_or_default()))
        };
        replace(&path, edit).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs+ours");
    }

    #[test]
    fn many_writers_lose_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    replace(path, |before| text(&format!("{}{number}\n", before.unwrap_or_default()))).unwrap()
                });
            }
        });
        let all = fs::read_to_string(&path).unwrap();
        assert_eq!(all.lines().count(), 8, "{all}");
    }

    #[test]
    fn link_stays_and_refusals_leave_everything() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        replace(&at("link"), |_| text("new")).unwrap();
        assert!(at("link").symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_to_string(at("real")).unwrap(), "new");
        fs::set_permissions(at("real"), fs::Permissions::from_mode(0o444)).unwrap();
        let refused = replace(&at("real"), |_| text("newer")).unwrap_err().to_string();
        assert!(refused.contains("it is read-only"), "{refused}");
        let impossible = replace(&at("none/a"), |_| Err::<Option<NewText>, _>("no")).unwrap_err().to_string();
        assert_eq!((impossible.as_str(), at("none").exists()), ("no", false));
        assert!(!replace(&at("link"), |_| Ok::<_, Infallible>(None)).unwrap());
    }
}
