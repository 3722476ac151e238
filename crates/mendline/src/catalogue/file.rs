//! The format, the authentication and the ownership of one catalogue file.
//!
//! The first line is a header that authenticates the rest; the rest is a [`ListCache`] as the core writes it.
//! ```text
//! mendline-catalogue 1 <written, ms since 1970> <HMAC-SHA-256>
//! {"jsonrpc":"2.0","method":"catalogue", …}
//! ```
//! The HMAC covers the file name, the time and the rest. So a file is rejected if it is damaged, truncated, of another
//! server or of another user, or if its writer cannot read this user's key. Before it is read, the file must be a
//! regular file that belongs to this user and that no other user can write to.
//!
//! A file is replaced as a whole by a rename: a concurrent reader sees the old file or the new one. It is not synced to
//! the disk, which can take seconds under load: a file that a power failure damages is rejected by its HMAC.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::{ListCache, Unreadable, defaults};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::identity::Identity;
use crate::os::files::{check_owner, new_private_file, open_without_following};
use crate::state::own_folder;

const MAGIC: &str = "mendline-catalogue";
const FORMAT: u32 = 1;
/// The largest file: the largest catalogue and the text around its entries.
const MAX_BYTES: u64 = 2 * defaults::CATALOGUE_BYTES as u64;
/// The most files in the directory; the least recently used one is removed first.
const MAX_FILES: usize = 256;
/// A temporary file of this age is abandoned by its writer.
const TEMPORARY_MAX_AGE: Duration = Duration::from_secs(60 * 60);
const KEY_BYTES: usize = 32;

/// The result of reading a file.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    ListCache(ListCache),
    /// A file that is rejected, and the reason.
    Untrusted(Rejection),
}

/// The reason why a file is rejected.
#[derive(Debug)]
pub(super) enum Rejection {
    /// It cannot be read, or others may have written it.
    Io(io::Error),
    NoFirstLine,
    FirstLineNotText,
    NotACatalogue,
    NoFormat,
    OtherFormat {
        format: u32,
    },
    NoTime,
    WrongHmac,
    Unreadable(Unreadable),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Io(error) => error.fmt(f),
            Rejection::NoFirstLine => f.write_str("it has no first line"),
            Rejection::FirstLineNotText => f.write_str("its first line is not text"),
            Rejection::NotACatalogue => f.write_str("it is not a catalogue"),
            Rejection::NoFormat => f.write_str("its first line has no format"),
            Rejection::OtherFormat { format } => {
                write!(f, "its format is {format}, and this version reads only {FORMAT}")
            }
            Rejection::NoTime => f.write_str("its first line has no time"),
            Rejection::WrongHmac => {
                f.write_str("its HMAC is wrong: the file is damaged or belongs to another server or user")
            }
            Rejection::Unreadable(why) => why.fmt(f),
        }
    }
}

/// The file of one server.
#[derive(Clone)]
pub(super) struct File {
    folder: PathBuf,
    name: String,
    key: hmac::Key,
}

impl File {
    /// Opens the file of this server in a state directory, which is created if it does not exist.
    pub(super) fn open(state: &Path, identity: &Identity) -> io::Result<File> {
        let folder = state.join("catalogue");
        own_folder(state)?;
        own_folder(&folder)?;
        let key = user_key(state)?;
        Ok(File { folder, name: identity.name(&key), key })
    }

    /// Finds the file of this server in an existing state directory. Creates nothing.
    pub(super) fn find(state: &Path, identity: &Identity) -> Option<File> {
        let key = read_key(&state.join("key")).ok()?;
        Some(File { folder: state.join("catalogue"), name: identity.name(&key), key })
    }

    pub(super) fn read(&self) -> Found {
        match read_own(&self.path("json"), MAX_BYTES) {
            Ok(bytes) => match self.verify(&bytes, now()) {
                Ok(cached) => Found::ListCache(cached),
                Err(why) => Found::Untrusted(why),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
            Err(error) => Found::Untrusted(Rejection::Io(error)),
        }
    }

    /// Renames the file to `*.bad`, so that it is not read again and people can inspect it.
    pub(super) fn set_aside(&self) -> io::Result<PathBuf> {
        let to = self.path("bad");
        fs::rename(self.path("json"), &to)?;
        Ok(to)
    }

    pub(super) fn write(&self, cached: &ListCache) -> io::Result<()> {
        let body = cached.write();
        if body.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("the catalogue is too large"));
        }
        let temporary = self.folder.join(format!("{}.{}.tmp", self.name, std::process::id()));
        let written = self.write_temporary(&temporary, &body).and_then(|()| fs::rename(&temporary, self.path("json")));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.sweep();
        Ok(())
    }

    fn write_temporary(&self, temporary: &Path, body: &[u8]) -> io::Result<()> {
        // An earlier process with the same id may have left one.
        let _ = fs::remove_file(temporary);
        let mut file = new_private_file().write(true).open(temporary)?;
        file.write_all(&self.header(body, now()))?;
        file.write_all(body)
    }

    fn header(&self, body: &[u8], written: u64) -> Vec<u8> {
        let tag: String = self.tag(body, written).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{MAGIC} {FORMAT} {written} {tag}\n").into_bytes()
    }

    fn tag(&self, body: &[u8], written: u64) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(format!("{} {FORMAT} {written}\n", self.name).as_bytes());
        context.update(body);
        context.sign()
    }

    fn verify(&self, bytes: &[u8], now: u64) -> Result<ListCache, Rejection> {
        let end = bytes.iter().take(200).position(|byte| *byte == b'\n').ok_or(Rejection::NoFirstLine)?;
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| Rejection::FirstLineNotText)?;
        let mut words = head.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(Rejection::NotACatalogue);
        }
        let format: u32 = words.next().and_then(|word| word.parse().ok()).ok_or(Rejection::NoFormat)?;
        if format != FORMAT {
            return Err(Rejection::OtherFormat { format });
        }
        let written: u64 = words.next().and_then(|word| word.parse().ok()).ok_or(Rejection::NoTime)?;
        let body = &bytes[end + 1..];
        if self.header(body, written) != bytes[..=end] {
            return Err(Rejection::WrongHmac);
        }
        let mut cached = ListCache::read(body).map_err(Rejection::Unreadable)?;
        // If the clock ran backwards, the age is unknown.
        let age = now.checked_sub(written).map_or(Duration::MAX, Duration::from_millis);
        cached.grow_older(age);
        Ok(cached)
    }

    /// Removes surplus and abandoned files. Errors are ignored.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files = Vec::new();
        for entry in entries.flatten().take(16 * MAX_FILES) {
            let Ok(age) = entry.metadata().and_then(|metadata| metadata.modified()) else { continue };
            let path = entry.path();
            let is_temporary = path.extension().is_some_and(|extension| extension == "tmp");
            if is_temporary && age.elapsed().is_ok_and(|age| age > TEMPORARY_MAX_AGE) {
                let _ = fs::remove_file(&path);
            } else if !is_temporary {
                files.push((age, path));
            }
        }
        files.sort();
        for (_, path) in files.iter().take(files.len().saturating_sub(MAX_FILES)) {
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }
}

/// Reads a regular file of at most `max_bytes` that only this user can write to.
fn read_own(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = open_without_following(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    check_owner(&metadata).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::other("it is too large"));
    }
    Ok(bytes)
}

/// Reads this user's key, or creates it. If several processes create one, the first wins and all use it.
fn user_key(state: &Path) -> io::Result<hmac::Key> {
    let path = state.join("key");
    if !path.exists() {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system provides no random bytes"))?;
        let temporary = state.join(format!("key.{}.tmp", std::process::id()));
        let _ = fs::remove_file(&temporary);
        let made = new_private_file()
            .write(true)
            .open(&temporary)
            .and_then(|mut file| file.write_all(&bytes))
            // A hard link, not a rename: it never replaces an existing key.
            .and_then(|()| fs::hard_link(&temporary, &path));
        let _ = fs::remove_file(&temporary);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    read_key(&path)
}

fn read_key(path: &Path) -> io::Result<hmac::Key> {
    let bytes = read_own(path, KEY_BYTES as u64)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    if bytes.len() != KEY_BYTES {
        return Err(io::Error::other(format!("{}: it is not a key", path.display())));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const KEPT: &str = r#"{"jsonrpc":"2.0","method":"catalogue","params":{"entries":[{"version":"2025-11-25","method":"tools/list","ageMs":0,"answer":{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}}]}}"#;

    fn kept() -> ListCache {
        ListCache::read(KEPT.as_bytes()).unwrap()
    }

    fn file(state: &Path, url: &str) -> File {
        File::open(&state.join("mendline"), &Identity::remote(url)).unwrap()
    }

    fn why(found: Found) -> String {
        match found {
            Found::Untrusted(why) => why.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn written_file_is_found_and_private_to_its_user() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        assert!(matches!(file.read(), Found::Nothing));
        file.write(&kept()).unwrap();
        let Found::ListCache(found) = file.read() else { panic!() };
        assert_eq!(found.len(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file.path("json")), 0o600);
        assert_eq!(mode(&file.folder), 0o700);
        assert_eq!(mode(&state.path().join("mendline/key")), 0o600);
        assert_eq!(fs::read_dir(&file.folder).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn find_creates_nothing() {
        let state = tempfile::tempdir().unwrap();
        let identity = Identity::remote("https://a.example/mcp");
        assert!(File::find(&state.path().join("mendline"), &identity).is_none());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
        file(state.path(), "https://a.example/mcp").write(&kept()).unwrap();
        let found = File::find(&state.path().join("mendline"), &identity).unwrap().read();
        assert!(matches!(found, Found::ListCache(_)), "{found:?}");
    }

    #[test]
    fn changed_or_truncated_file_is_rejected() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        file.write(&kept()).unwrap();
        let whole = fs::read(file.path("json")).unwrap();
        assert!(file.verify(&whole, now()).is_ok());
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(file.verify(&other, now()).is_err(), "byte {at}");
            assert!(file.verify(&whole[..at], now()).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn file_of_another_server_or_user_is_rejected() {
        let (mine, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (file(mine.path(), "https://a.example/mcp"), file(mine.path(), "https://b.example/mcp"));
        a.write(&kept()).unwrap();
        fs::copy(a.path("json"), b.path("json")).unwrap();
        assert!(why(b.read()).contains("another server or user"));
        let other = file(theirs.path(), "https://a.example/mcp");
        assert_ne!(other.name, a.name);
        fs::copy(a.path("json"), other.path("json")).unwrap();
        assert!(why(other.read()).contains("another server or user"));
    }

    #[test]
    fn file_of_later_format_is_named_and_set_aside() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        file.write(&kept()).unwrap();
        let text = fs::read_to_string(file.path("json")).unwrap().replacen("catalogue 1 ", "catalogue 2 ", 1);
        fs::write(file.path("json"), text).unwrap();
        assert_eq!(why(file.read()), "its format is 2, and this version reads only 1");
        file.set_aside().unwrap();
        assert!(matches!(file.read(), Found::Nothing));
        assert!(file.path("bad").exists());
    }

    #[test]
    fn links_pipes_and_files_writable_by_others_are_rejected() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        file.write(&kept()).unwrap();
        let (path, elsewhere) = (file.path("json"), state.path().join("elsewhere"));
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        why(file.read());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(why(file.read()), "it is not a regular file");
        fs::remove_file(&path).unwrap();
        fs::rename(&elsewhere, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(why(file.read()), "other users can write to it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&file.folder, fs::Permissions::from_mode(0o777)).unwrap();
        let again = File::open(&state.path().join("mendline"), &Identity::remote("https://a.example/mcp"));
        assert!(again.err().unwrap().to_string().contains("other users can write to it"));
    }

    #[test]
    fn invalid_key_is_an_error() {
        let state = tempfile::tempdir().unwrap();
        file(state.path(), "https://a.example/mcp");
        fs::write(state.path().join("mendline/key"), b"short").unwrap();
        let again = File::open(&state.path().join("mendline"), &Identity::remote("https://a.example/mcp"));
        assert!(again.err().unwrap().to_string().contains("it is not a key"));
    }

    #[test]
    fn file_from_the_future_has_maximum_age() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        let body = KEPT.as_bytes();
        let text = [file.header(body, 5_000), body.to_vec()].concat();
        let age = |now| String::from_utf8(file.verify(&text, now).unwrap().write()).unwrap();
        assert!(age(6_500).contains(r#""ageMs":1500,"#));
        assert!(age(4_000).contains(&format!(r#""ageMs":{},"#, u64::MAX)));
    }

    #[test]
    fn surplus_and_abandoned_files_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        let old = SystemTime::now() - 2 * TEMPORARY_MAX_AGE;
        for number in 0..MAX_FILES + 10 {
            let path = file.folder.join(format!("{number}.json"));
            fs::File::create(&path).unwrap().set_modified(old).unwrap();
        }
        let temporary = file.folder.join("x.1.tmp");
        fs::File::create(&temporary).unwrap().set_modified(old).unwrap();
        file.write(&kept()).unwrap();
        assert!(!temporary.exists());
        assert_eq!(fs::read_dir(&file.folder).unwrap().count(), MAX_FILES);
        assert!(matches!(file.read(), Found::ListCache(_)), "the newest file remains");
    }
}
