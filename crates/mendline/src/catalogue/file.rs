//! One file: its format, its header, and whom it may belong to.
//!
//! The first line says what it is and seals the rest; the rest is [`ListCache`] as the decisions write it.
//! ```text
//! mendline-catalogue 1 <written, ms since 1970> <header>
//! {"jsonrpc":"2.0","method":"catalogue", …}
//! ```
//! The header is a keyed hash over the name, the time and the rest, so a file that is damaged, cut short, another server's or
//! another user's does not pass, and neither does one that somebody wrote who cannot read this user's key. Before a byte is
//! read, the file has to be a plain one, this user's, and nobody else's to write.
//!
//! A file is replaced whole, by renaming: who reads at the same time reads the old one or the new one. It is not forced to the
//! disk, which takes seconds where others write, too: what a power cut leaves of it does not pass its header.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mendline_core::{ListCache, defaults};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::identity::Identity;
use crate::state::{check_owner, own_folder};

const MAGIC: &str = "mendline-catalogue";
const FORMAT: u32 = 1;
/// The max_bytes file: the max_bytes catalogue, and what stands around its entries.
const MAX_BYTES: u64 = 2 * defaults::CATALOGUE_BYTES as u64;
/// Servers of which something is kept; the one that was used least recently goes first.
const MAX_FILES: usize = 256;
/// A file temporary written that is this old has nobody any more who writes it.
const TEMPORARY_MAX_AGE: Duration = Duration::from_secs(60 * 60);
const KEY_BYTES: usize = 32;

/// What was found in a file's place.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    ListCache(ListCache),
    /// Something that may not be trusted, and why.
    Untrusted(String),
}

/// The file of one server.
#[derive(Clone)]
pub(super) struct File {
    folder: PathBuf,
    name: String,
    key: hmac::Key,
}

impl File {
    /// The file of this server in a state directory, which is made if it is not there.
    pub(super) fn open(state: &Path, identity: &Identity) -> io::Result<File> {
        let folder = state.join("catalogue");
        own_folder(state)?;
        own_folder(&folder)?;
        let key = user_key(state)?;
        Ok(File { folder, name: identity.name(&key), key })
    }

    /// The file of this server, if anything was ever kept in this state directory.
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
            Err(error) => Found::Untrusted(error.to_string()),
        }
    }

    /// Out of the way, where people can look at it.
    pub(super) fn set_aside(&self) -> io::Result<PathBuf> {
        let to = self.path("bad");
        fs::rename(self.path("json"), &to)?;
        Ok(to)
    }

    pub(super) fn write(&self, cached: &ListCache) -> io::Result<()> {
        let body = cached.write();
        if body.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("there is too much to keep"));
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
        // One that another process of our number left behind.
        let _ = fs::remove_file(temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
        file.write_all(&self.header(body, now()))?;
        file.write_all(body)
    }

    fn header(&self, body: &[u8], written: u64) -> Vec<u8> {
        let header: String = self.tag(body, written).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{MAGIC} {FORMAT} {written} {header}\n").into_bytes()
    }

    fn tag(&self, body: &[u8], written: u64) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(format!("{} {FORMAT} {written}\n", self.name).as_bytes());
        context.update(body);
        context.sign()
    }

    fn verify(&self, bytes: &[u8], now: u64) -> Result<ListCache, String> {
        let end = bytes.iter().take(200).position(|byte| *byte == b'\n').ok_or("it has no first line")?;
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "its first line is no text")?;
        let mut words = head.split(' ');
        if words.next() != Some(MAGIC) {
            return Err("it is no catalogue".to_owned());
        }
        let format: u32 = words.next().and_then(|word| word.parse().ok()).ok_or("its format is not said")?;
        if format != FORMAT {
            return Err(format!("its format is {format}, and only {FORMAT} is known here"));
        }
        let written: u64 = words.next().and_then(|word| word.parse().ok()).ok_or("its time is not said")?;
        let body = &bytes[end + 1..];
        if self.header(body, written) != bytes[..=end] {
            return Err("its header does not fit: it is damaged, or another's".to_owned());
        }
        let mut cached = ListCache::read(body).map_err(|why| why.to_string())?;
        // A clock that ran backwards says nothing metadata how old it is.
        let age = now.checked_sub(written).map_or(Duration::MAX, Duration::from_millis);
        cached.grow_older(age);
        Ok(cached)
    }

    /// Keeps the folder within its limits. That it fails is not worth a word.
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

/// Reads a plain file that is ours alone to write, and not larger than that.
fn read_own(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    check_owner(&metadata).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::other("it is too large"));
    }
    Ok(bytes)
}

/// This user's key, made when there is none. Whoever is first makes it; the others use what they find.
fn user_key(state: &Path) -> io::Result<hmac::Key> {
    let path = state.join("key");
    if !path.exists() {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("no random bytes can be had"))?;
        let temporary = state.join(format!("key.{}.tmp", std::process::id()));
        let _ = fs::remove_file(&temporary);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| file.write_all(&bytes))
            // A link, not a renaming: it never replaces a key that others use already.
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
        return Err(io::Error::other(format!("{}: it is no key", path.display())));
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
            Found::Untrusted(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_written_is_found_again_and_only_its_user_can_read_it() {
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
        assert_eq!(fs::read_dir(&file.folder).unwrap().count(), 1, "nothing temporary written is left");
    }

    #[test]
    fn whoever_only_looks_makes_nothing() {
        let state = tempfile::tempdir().unwrap();
        let identity = Identity::remote("https://a.example/mcp");
        assert!(File::find(&state.path().join("mendline"), &identity).is_none());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
        file(state.path(), "https://a.example/mcp").write(&kept()).unwrap();
        let found = File::find(&state.path().join("mendline"), &identity).unwrap().read();
        assert!(matches!(found, Found::ListCache(_)), "{found:?}");
    }

    #[test]
    fn a_file_that_differs_in_a_single_byte_or_is_cut_short_is_not_trusted() {
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
    fn another_servers_file_and_another_users_are_not_trusted() {
        let (mine, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (file(mine.path(), "https://a.example/mcp"), file(mine.path(), "https://b.example/mcp"));
        a.write(&kept()).unwrap();
        fs::copy(a.path("json"), b.path("json")).unwrap();
        assert!(why(b.read()).contains("another's"));
        let other = file(theirs.path(), "https://a.example/mcp");
        assert_ne!(other.name, a.name);
        fs::copy(a.path("json"), other.path("json")).unwrap();
        assert!(why(other.read()).contains("another's"));
    }

    #[test]
    fn a_file_of_a_later_format_is_named_as_one_and_set_aside() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        file.write(&kept()).unwrap();
        let text = fs::read_to_string(file.path("json")).unwrap().replacen("catalogue 1 ", "catalogue 2 ", 1);
        fs::write(file.path("json"), text).unwrap();
        assert_eq!(why(file.read()), "its format is 2, and only 1 is known here");
        file.set_aside().unwrap();
        assert!(matches!(file.read(), Found::Nothing));
        assert!(file.path("bad").exists());
    }

    #[test]
    fn links_pipes_and_what_others_may_write_to_are_not_trusted() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        file.write(&kept()).unwrap();
        let (path, elsewhere) = (file.path("json"), state.path().join("elsewhere"));
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        why(file.read());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(why(file.read()), "it is no plain file");
        fs::remove_file(&path).unwrap();
        fs::rename(&elsewhere, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(why(file.read()), "others may write to it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&file.folder, fs::Permissions::from_mode(0o777)).unwrap();
        let again = File::open(&state.path().join("mendline"), &Identity::remote("https://a.example/mcp"));
        assert!(again.err().unwrap().to_string().contains("others may write to it"));
    }

    #[test]
    fn a_key_that_is_none_keeps_everything_shut() {
        let state = tempfile::tempdir().unwrap();
        file(state.path(), "https://a.example/mcp");
        fs::write(state.path().join("mendline/key"), b"short").unwrap();
        let again = File::open(&state.path().join("mendline"), &Identity::remote("https://a.example/mcp"));
        assert!(again.err().unwrap().to_string().contains("it is no key"));
    }

    #[test]
    fn what_was_written_in_the_future_is_as_old_as_can_be() {
        let state = tempfile::tempdir().unwrap();
        let file = file(state.path(), "https://a.example/mcp");
        let body = KEPT.as_bytes();
        let text = [file.header(body, 5_000), body.to_vec()].concat();
        let age = |now| String::from_utf8(file.verify(&text, now).unwrap().write()).unwrap();
        assert!(age(6_500).contains(r#""ageMs":1500,"#));
        assert!(age(4_000).contains(&format!(r#""ageMs":{},"#, u64::MAX)));
    }

    #[test]
    fn the_folder_has_a_limit_and_what_is_half_written_for_long_goes() {
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
        assert!(matches!(file.read(), Found::ListCache(_)), "the newest stays");
    }
}
