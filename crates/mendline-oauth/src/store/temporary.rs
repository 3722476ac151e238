//! A file that is written beside another one, and then replaces it.
//!
//! Its space can be reserved beforehand: a token that the server has rotated must not meet a full disk.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use mendline::os::files::new_private_file;

/// The end of the names of such files.
pub(super) const SUFFIX: &str = ".new";

/// A temporary file. It is deleted unless it has replaced its target.
#[derive(Debug)]
pub(crate) struct Temporary {
    target: PathBuf,
    path: PathBuf,
    file: File,
    has_replaced: bool,
}

impl Temporary {
    /// Creates the file beside its target.
    pub(super) fn create(target: &Path) -> io::Result<Temporary> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}-{number}{SUFFIX}", std::process::id()));
        let path = PathBuf::from(name);
        // A process with the same number may have died here.
        let _ = fs::remove_file(&path);
        let file = new_private_file().write(true).open(&path)?;
        Ok(Temporary { target: target.to_owned(), path, file, has_replaced: false })
    }

    /// Takes this much space on the disk.
    pub(super) fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        io::copy(&mut io::Read::take(io::repeat(b' '), bytes), &mut self.file)?;
        self.file.sync_all()
    }

    /// Writes the content and replaces the target: the old one stays until the new one is on the disk.
    pub(super) fn replace(mut self, content: &[u8]) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(content)?;
        self.file.set_len(content.len() as u64)?;
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.has_replaced = true;
        match self.target.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.has_replaced {
            let _ = fs::remove_file(&self.path);
        }
    }
}
