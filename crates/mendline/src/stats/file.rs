//! The file of one server: counts by the hour, as JSON.
//!
//! A file is replaced as a whole by a rename, so that a reader gets the old one or the new one and a full disk damages
//! nothing. Writers exclude each other by a lock on the directory. A file that cannot be read, after a power failure for
//! example, is put aside.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use mendline_core::recovery::Recoveries;
use serde::{Deserialize, Serialize};

use super::{FOLDER, Hours, this_hour};
use crate::os::files::{new_private_file, open_without_following};
use crate::state::own_folder;

/// The number of days for which counts are kept.
pub const KEPT_DAYS: u64 = 35;

const VERSION: u32 = 1;
const SUFFIX: &str = ".json";
/// The largest file: every hour that is kept, with every count.
const MAX_BYTES: u64 = 1 << 20;
/// The most files in the directory.
const MAX_FILES: usize = 256;
/// The time for which another process may hold the lock.
const LOCK_WITHIN: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The counts of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStats {
    /// Its name.
    pub name: String,
    hours: Hours,
}

impl ServerStats {
    /// Returns the sum from this hour since 1970 on.
    pub fn since(&self, hour: u64) -> Recoveries {
        self.hours.range(hour..).fold(Recoveries::default(), |mut sum, (_, counts)| {
            sum += *counts;
            sum
        })
    }

    /// Returns the first hour since 1970 that has counts.
    pub fn first_hour(&self) -> Option<u64> {
        self.hours.keys().next().copied()
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    server: String,
    hours: BTreeMap<u64, Counts>,
}

/// The counts of an hour. Members may be added; a missing one is zero.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Counts {
    restarts: u64,
    reconnects: u64,
    sessions: u64,
    retries: u64,
    resumed: u64,
    renewals: u64,
    saved: u64,
    waited: u64,
    away_ms: u64,
    answered: u64,
    failed: u64,
}

impl From<Recoveries> for Counts {
    fn from(counts: Recoveries) -> Counts {
        let Recoveries { restarts, reconnects, sessions, retries, resumed, renewals, saved, waited, .. } = counts;
        let Recoveries { away, answered, failed, .. } = counts;
        let away_ms = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
        Counts { restarts, reconnects, sessions, retries, resumed, renewals, saved, waited, away_ms, answered, failed }
    }
}

impl From<Counts> for Recoveries {
    fn from(counts: Counts) -> Recoveries {
        let Counts { restarts, reconnects, sessions, retries, resumed, renewals, saved, waited, .. } = counts;
        let Counts { away_ms, answered, failed, .. } = counts;
        let away = Duration::from_millis(away_ms);
        Recoveries { restarts, reconnects, sessions, retries, resumed, renewals, saved, waited, away, answered, failed }
    }
}

/// Adds counts to the file of a server.
pub(super) fn add(folder: &Path, name: &str, hours: &Hours) -> io::Result<()> {
    own_folder(folder)?;
    let path = folder.join(file_name(name));
    let _lock = lock(folder)?;
    let is_new = !path.exists();
    if is_new && fs::read_dir(folder)?.count() >= MAX_FILES {
        return Err(io::Error::other("there are too many files of statistics"));
    }
    let mut all = match read(&path) {
        Ok(Some(stats)) => stats.hours,
        Ok(None) => Hours::new(),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            fs::rename(&path, path.with_extension("unreadable"))?;
            Hours::new()
        }
        Err(error) => return Err(error),
    };
    for (hour, counts) in hours {
        *all.entry(*hour).or_default() += *counts;
    }
    forget_old(&mut all);
    let hours = all.into_iter().map(|(hour, counts)| (hour, Counts::from(counts))).collect();
    let stored = Stored { version: VERSION, server: name.to_owned(), hours };
    write(&path, &serde_json::to_vec(&stored)?)
}

/// Removes the counts of hours that are not kept any longer, and of a clock that was far ahead.
pub(super) fn forget_old(hours: &mut Hours) {
    let now = this_hour();
    let (oldest, newest) = (now.saturating_sub(KEPT_DAYS * 24), now + 24);
    hours.retain(|hour, _| (oldest..=newest).contains(hour));
}

/// Reads the counts of all servers, by name. Files that cannot be read are left out.
pub fn read_all(state_directory: &Path) -> io::Result<Vec<ServerStats>> {
    let entries = match fs::read_dir(state_directory.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries.take(MAX_FILES) {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            all.extend(read(&path).ok().flatten());
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Reads one file; `None` if it does not exist.
fn read(path: &Path) -> io::Result<Option<ServerStats>> {
    let file = match open_without_following(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    let stored: Stored =
        serde_json::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    if stored.version != VERSION {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "another version wrote it"));
    }
    let hours = stored.hours.into_iter().map(|(hour, counts)| (hour, Recoveries::from(counts))).collect();
    Ok(Some(ServerStats { name: stored.server, hours }))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    // Only one process writes at a time, so a file with this name is left from a process that was killed.
    let _ = fs::remove_file(&temporary);
    let written = (|| {
        let mut file = new_private_file().write(true).open(&temporary)?;
        // It is not synced to the disk, which can take seconds under load.
        file.write_all(bytes)?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Locks the directory. The lock ends with the returned file.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    let deadline = Instant::now() + LOCK_WITHIN;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the name of the file of a server. Names may have characters that a file name must not have.
fn file_name(name: &str) -> PathBuf {
    let mut file = String::new();
    for byte in name.bytes().take(64) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => file.push(char::from(byte)),
            _ => file.push_str(&format!("%{byte:02x}")),
        }
    }
    PathBuf::from(file + SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(restarts: u64) -> Recoveries {
        Recoveries { restarts, away: Duration::from_millis(restarts), ..Recoveries::default() }
    }

    #[test]
    fn counts_are_summed_from_an_hour_on_and_old_ones_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let (folder, now) = (state.path().join(FOLDER), this_hour());
        add(&folder, "127.0.0.1:80", &Hours::from([(now, counts(1)), (now - 30, counts(2))])).unwrap();
        add(
            &folder,
            "127.0.0.1:80",
            &Hours::from([(now, counts(4)), (now - 1_000, counts(8)), (now + 999, counts(9))]),
        )
        .unwrap();
        let all = read_all(state.path()).unwrap();
        assert_eq!((all.len(), all[0].name.as_str()), (1, "127.0.0.1:80"));
        assert_eq!((all[0].since(now), all[0].since(now - 30)), (counts(5), counts(7)));
        assert_eq!(all[0].since(0), counts(7), "what is too old, or in the future, is not kept");
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["127%2e0%2e0%2e1%3a80.json"]);
    }

    #[test]
    fn damaged_file_is_put_aside_and_one_of_another_version_is_left() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join(FOLDER);
        own_folder(&folder).unwrap();
        fs::write(folder.join("notes.json"), "{\"version\":1,").unwrap();
        add(&folder, "notes", &Hours::from([(this_hour(), counts(1))])).unwrap();
        assert_eq!(read_all(state.path()).unwrap()[0].since(0), counts(1));
        assert!(folder.join("notes.unreadable").exists());
        let later = "{\"version\":2,\"server\":\"git\",\"hours\":{}}";
        fs::write(folder.join("git.json"), later).unwrap();
        assert!(add(&folder, "git", &Hours::from([(this_hour(), counts(1))])).is_err());
        assert_eq!(fs::read_to_string(folder.join("git.json")).unwrap(), later);
    }

    #[test]
    fn largest_file_is_within_the_limit() {
        let full = Recoveries { restarts: u64::MAX >> 12, away: Duration::from_secs(1 << 40), ..counts(1) };
        let hours: Hours = (0..=KEPT_DAYS * 24 + 24).map(|ago| (this_hour() + 24 - ago, full)).collect();
        let state = tempfile::tempdir().unwrap();
        add(&state.path().join(FOLDER), "notes", &hours).unwrap();
        let size = fs::metadata(state.path().join("stats/notes.json")).unwrap().len();
        assert!(size < MAX_BYTES / 2, "{size}");
    }
}
