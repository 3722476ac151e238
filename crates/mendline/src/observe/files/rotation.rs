//! The rotating files of one process.
//!
//! A file is created at the first write. A full file is followed by the next one. A file that was removed, alone or
//! with its directory, is created again. The directory is checked regularly: while it is too large, the files with the
//! oldest modification time are removed, including those of other processes. Two processes may do this at once, because
//! removing a missing file is no error.
//!
//! A failed write may leave a partial line. The file is truncated to its last complete line. If that fails, the next
//! write starts on a new line.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memchr::{memchr_iter, memrchr};

use super::{FileOptions, SUFFIX, WIRE_SUFFIX};
use crate::os::files::{has_name, new_private_file};
use crate::state::own_folder;

/// The limit of files in the directory, so that a check stays fast.
const MAX_FILES: usize = 512;

/// The number of checks while a process writes the size limit of the directory once.
const CHECKS_PER_FOLDER: u64 = 64;

/// The rotating files of one process.
pub(super) struct RotatingFiles {
    folder: PathBuf,
    stem: String,
    suffix: &'static str,
    file_bytes: u64,
    folder_bytes: u64,
    number: u32,
    current: Option<Current>,
    /// The bytes written since the last check.
    since_check: u64,
}

struct Current {
    file: File,
    path: PathBuf,
    size: u64,
    /// The last write left a partial line.
    ends_in_partial_line: bool,
}

/// A failed write, with its path.
#[derive(Debug)]
pub(super) struct WriteError {
    path: PathBuf,
    error: io::Error,
    /// The number of lines that were lost.
    pub(super) lost: u64,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

/// Returns the start of the file names of a process: its server, its start time and its process id.
pub(super) fn stem(server: &str, started: SystemTime, pid: u32) -> String {
    let started: String = humantime::format_rfc3339_seconds(started).to_string();
    let started: String = started.chars().filter(|character| !matches!(character, '-' | ':')).collect();
    format!("{server}.{started}.{pid}")
}

impl RotatingFiles {
    pub(super) fn new(options: &FileOptions, stem: &str, suffix: &'static str) -> RotatingFiles {
        RotatingFiles {
            folder: options.folder.clone(),
            stem: stem.to_owned(),
            suffix,
            file_bytes: options.file_bytes,
            folder_bytes: options.folder_bytes.max(options.file_bytes),
            number: 0,
            current: None,
            since_check: 0,
        }
    }

    /// Appends complete lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), WriteError> {
        if lines.is_empty() {
            return Ok(());
        }
        let all = count(lines);
        let current =
            self.file_for(lines.len() as u64).map_err(|(path, error)| WriteError { path, error, lost: all })?;
        if current.ends_in_partial_line {
            let ended = current.file.write_all(b"\n");
            ended.map_err(|error| WriteError { path: current.path.clone(), error, lost: all })?;
            current.size += 1;
            current.ends_in_partial_line = false;
        }
        let (written, failed) = write(&mut current.file, lines);
        if let Some(error) = failed {
            // Complete lines stay.
            let whole = memrchr(b'\n', &lines[..written]).map_or(0, |end| end + 1);
            current.size += whole as u64;
            current.ends_in_partial_line = current.file.set_len(current.size).is_err();
            return Err(WriteError { path: current.path.clone(), error, lost: count(&lines[whole..]) });
        }
        current.size += lines.len() as u64;
        self.since_check += lines.len() as u64;
        if self.since_check > self.folder_bytes / CHECKS_PER_FOLDER {
            self.enforce_limits();
        }
        Ok(())
    }

    /// Returns the file for the next lines.
    fn file_for(&mut self, length: u64) -> Result<&mut Current, (PathBuf, io::Error)> {
        if let Some(current) = self.current.take() {
            let is_there = has_name(&current.file);
            let is_full = current.size > 0 && current.size + length > self.file_bytes;
            if is_there && !is_full {
                return Ok(self.current.insert(current));
            }
        }
        let current = self.create()?;
        self.current = Some(current);
        self.enforce_limits();
        self.current.as_mut().ok_or_else(|| (self.folder.clone(), io::ErrorKind::Other.into()))
    }

    fn create(&mut self) -> Result<Current, (PathBuf, io::Error)> {
        let fail = |path: &Path, error| (path.to_owned(), error);
        own_folder(&self.folder).map_err(|error| fail(&self.folder, error))?;
        let number = self.number + 1;
        let path = self.folder.join(format!("{}.{number}{}", self.stem, self.suffix));
        let file = new_private_file().append(true).open(&path);
        let file = match file {
            // Another process had the same id within the same second, or the clock was set back.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.number = number;
                return if number < u32::MAX { self.create() } else { Err(fail(&path, error)) };
            }
            other => other.map_err(|error| fail(&path, error))?,
        };
        self.number = number;
        Ok(Current { file, path, size: 0, ends_in_partial_line: false })
    }

    /// Removes old files until the directory is within its limits. Errors are ignored: the next check tries again.
    fn enforce_limits(&mut self) {
        self.since_check = 0;
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .take(32 * MAX_FILES)
            .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.ends_with(SUFFIX)))
            .filter_map(|entry| {
                let metadata = entry.metadata().ok()?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        files.sort();
        let is_wire = |path: &Path| path.to_str().is_some_and(|path| path.ends_with(WIRE_SUFFIX));
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        let mut messages: u64 = files.iter().filter(|(_, _, path)| is_wire(path)).map(|(_, size, _)| size).sum();
        let mut count = files.len();
        for (_, size, path) in &files {
            // Messages on the wire may use at most half of the space, so that they do not displace the log.
            let too_many_messages = is_wire(path) && messages > self.folder_bytes / 2;
            let too_much = total > self.folder_bytes || count > MAX_FILES;
            let is_ours = self.current.as_ref().is_some_and(|current| current.path == *path);
            if !(too_much || too_many_messages) || is_ours {
                continue;
            }
            let _ = fs::remove_file(path);
            total -= size;
            messages -= if is_wire(path) { *size } else { 0 };
            count -= 1;
        }
    }
}

/// Writes as much as possible. Returns the number of written bytes, and the error if there was one.
fn write(file: &mut File, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
}

fn count(lines: &[u8]) -> u64 {
    memchr_iter(b'\n', lines).count() as u64
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::super::super::log::LogLevel;
    use super::*;

    fn options(folder: &Path, file_bytes: u64, folder_bytes: u64) -> FileOptions {
        FileOptions { folder: folder.join("logs"), level: LogLevel::Info, file_bytes, folder_bytes, wire: false }
    }

    fn files_in(folder: &Path) -> Vec<(String, u64)> {
        let entries = fs::read_dir(folder.join("logs")).unwrap().flatten();
        let mut files: Vec<_> =
            entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())).collect();
        files.sort();
        files
    }

    #[test]
    fn full_file_is_followed_by_the_next_private_file() {
        let home = tempfile::tempdir().unwrap();
        let mut files = RotatingFiles::new(&options(home.path(), 100, 10_000), "notes.x.1", SUFFIX);
        for _ in 0..5 {
            files.append(&[b'x'; 40]).unwrap();
        }
        let names = ["notes.x.1.1.jsonl", "notes.x.1.2.jsonl", "notes.x.1.3.jsonl"].map(str::to_owned);
        assert_eq!(files_in(home.path()), names.into_iter().zip([80, 80, 40]).collect::<Vec<_>>());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home.path().join("logs")), 0o700);
        assert_eq!(mode(&home.path().join("logs/notes.x.1.1.jsonl")), 0o600);
    }

    #[test]
    fn oldest_files_are_removed_above_the_limit() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("logs");
        own_folder(&folder).unwrap();
        for (age, name) in [(30, "a.x.1.1.jsonl"), (20, "b.x.1.1.jsonl"), (10, "c.x.1.1.jsonl"), (40, "mine.txt")] {
            fs::write(folder.join(name), [b'x'; 400]).unwrap();
            let file = File::options().append(true).open(folder.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        let mut files = RotatingFiles::new(&options(home.path(), 500, 1_000), "notes.x.1", SUFFIX);
        files.append(&[b'x'; 300]).unwrap();
        files.append(&[b'x'; 100]).unwrap();
        let names: Vec<String> = files_in(home.path()).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["c.x.1.1.jsonl", "mine.txt", "notes.x.1.1.jsonl"]);
    }

    #[test]
    fn wire_files_do_not_displace_log_files() {
        let home = tempfile::tempdir().unwrap();
        let options = options(home.path(), 300, 1_000);
        let mut log = RotatingFiles::new(&options, "notes.x.1", SUFFIX);
        log.append(&[b'x'; 100]).unwrap();
        let mut wire = RotatingFiles::new(&options, "notes.x.1", WIRE_SUFFIX);
        for _ in 0..20 {
            wire.append(&[b'x'; 200]).unwrap();
        }
        let files = files_in(home.path());
        assert!(files.iter().any(|(name, _)| name == "notes.x.1.1.jsonl"), "{files:?}");
        assert!(files.iter().map(|(_, size)| size).sum::<u64>() <= 1_000, "{files:?}");
    }

    #[test]
    fn removed_file_or_directory_is_created_again() {
        let home = tempfile::tempdir().unwrap();
        let mut files = RotatingFiles::new(&options(home.path(), 1_000, 10_000), "notes.x.1", SUFFIX);
        files.append(b"1\n").unwrap();
        fs::remove_file(home.path().join("logs/notes.x.1.1.jsonl")).unwrap();
        files.append(b"2\n").unwrap();
        fs::remove_dir_all(home.path().join("logs")).unwrap();
        files.append(b"3\n").unwrap();
        assert_eq!(fs::read(home.path().join("logs/notes.x.1.3.jsonl")).unwrap(), b"3\n");
    }

    #[test]
    fn error_names_the_path() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("logs"), "in the way").unwrap();
        let mut files = RotatingFiles::new(&options(home.path(), 1_000, 10_000), "notes.x.1", SUFFIX);
        let error = files.append(b"1\n").unwrap_err().to_string();
        assert!(error.contains("logs: "), "{error}");
    }

    #[test]
    fn partial_line_is_ended_before_the_next_one() {
        let home = tempfile::tempdir().unwrap();
        let mut files = RotatingFiles::new(&options(home.path(), 1_000, 10_000), "notes.x.1", SUFFIX);
        files.append(b"whole\n").unwrap();
        let current = files.current.as_mut().unwrap();
        current.file.write_all(b"ha").unwrap();
        current.ends_in_partial_line = true;
        files.append(b"next\n").unwrap();
        assert_eq!(fs::read(home.path().join("logs/notes.x.1.1.jsonl")).unwrap(), b"whole\nha\nnext\n");
    }

    proptest::proptest! {
        #[test]
        fn directory_keeps_its_limit_and_the_last_lines(
            sizes in proptest::collection::vec(1..400usize, 1..60),
        ) {
            let home = tempfile::tempdir().unwrap();
            let mut files = RotatingFiles::new(&options(home.path(), 500, 2_000), "notes.x.1", SUFFIX);
            for size in &sizes {
                files.append(&vec![b'x'; *size]).unwrap();
            }
            let files = files_in(home.path());
            proptest::prop_assert!(files.iter().all(|(_, size)| *size <= 500));
            let total: u64 = files.iter().map(|(_, size)| size).sum();
            // Bytes since the last check are not counted yet.
            proptest::prop_assert!(total <= 2_000 + 2_000 / CHECKS_PER_FOLDER, "{}", total);
            proptest::prop_assert!(total >= (*sizes.last().unwrap() as u64).min(500));
        }
    }
}
