//! Owners and permissions of files.
//!
//! Files with secrets, and the directories of Mendline, belong to one user, and other users cannot read or change them.

use std::fmt;
use std::fs::{self, DirBuilder, File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, OFlags, access};

/// The mode of a file for its owner alone.
const PRIVATE_FILE: u32 = 0o600;

/// The mode of a directory for its owner alone.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// Returns the id of the user who runs this process.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns options to create a new file that only this user can read and write. An existing file is an error.
pub fn new_private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create_new(true).mode(PRIVATE_FILE);
    options
}

/// Returns options to append to a file that only this user can read and write. A missing file is created.
pub(crate) fn append_private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(PRIVATE_FILE);
    options
}

/// Creates a directory that only this user can access.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE_DIRECTORY).create(path)
}

/// Creates a directory, and its missing parents, that only this user can access. An existing one is left as it is.
pub fn create_private_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Makes a file readable and writable by its owner alone.
pub fn make_private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(PRIVATE_FILE))
}

/// The permissions of a file that replaces another or is a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// Those of the other file.
    Same,
    /// Only the owner can read and write it.
    Private,
}

/// Creates a new file with the owner of another file. Until it has that owner, only this user can read it.
pub fn create_like(path: &Path, like: &Metadata, permissions: Permissions) -> io::Result<File> {
    let file = new_private_file().write(true).open(path)?;
    let mode = match permissions {
        Permissions::Same => like.mode() & 0o7777,
        Permissions::Private => PRIVATE_FILE,
    };
    let ready = || -> io::Result<()> {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
            std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))
    };
    if let Err(error) = ready() {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}

/// Opens a file to read it. Does not follow a symbolic link, and does not wait for the writer of a named pipe.
pub(crate) fn open_without_following(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Opens a file to read it. Does not wait for the writer of a named pipe.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
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
pub(crate) fn check_owner(metadata: &Metadata) -> Result<(), NotOwn> {
    if metadata.uid() != user_id() {
        Err(NotOwn::OtherOwner)
    } else if metadata.permissions().mode() & 0o022 != 0 {
        Err(NotOwn::WritableByOthers)
    } else {
        Ok(())
    }
}

/// The access of other users to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// It belongs to another user.
    OtherOwner {
        /// The id of that user.
        uid: u32,
    },
    /// Others have access.
    OpenToOthers {
        /// Its permissions.
        mode: u32,
    },
}

/// Returns the access of other users to a file; `None` if it is private to this user.
pub fn exposure(metadata: &Metadata) -> Option<Exposure> {
    if metadata.uid() != user_id() {
        Some(Exposure::OtherOwner { uid: metadata.uid() })
    } else if metadata.mode() & 0o077 != 0 {
        Some(Exposure::OpenToOthers { mode: metadata.mode() & 0o777 })
    } else {
        None
    }
}

/// Returns whether users other than the owner can read a file.
pub fn is_readable_by_others(metadata: &Metadata) -> bool {
    metadata.mode() & 0o044 != 0
}

/// Returns whether a file is marked as a program, for any user.
pub fn is_program(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.mode() & 0o111 != 0
}

/// Returns whether this user can execute a file.
pub fn can_execute(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}

/// Returns whether this user can write to a file or directory.
pub fn can_write(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

/// Returns whether a file is a socket.
pub fn is_socket(kind: FileType) -> bool {
    kind.is_socket()
}

/// Returns whether an open file still has a name.
pub(crate) fn has_name(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

/// Returns a value that differs for two files, even if one replaced the other under the same name.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// A value that changes when a file is written to or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    identity: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Returns the stamp of a file.
pub(crate) fn stamp(metadata: &Metadata) -> Stamp {
    Stamp {
        identity: identity(metadata),
        length: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}
