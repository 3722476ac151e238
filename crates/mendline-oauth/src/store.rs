//! The store of logins: one file per login, for this user alone.
//!
//! ```text
//! <state>/credentials/login-<hash of server and account>.json    the login
//! <state>/credentials/login-<hash>.lock                          held while the login is renewed
//! <state>/credentials/login-<hash>.flow                          held while a person logs in
//! <state>/credentials/issuer-<hash>.json                         the registered client and quirks of an issuer
//! <state>/credentials/counters.json                              fruitless requests, opened browsers
//! ```
//! A file is replaced as a whole: written beside it, synced, renamed, and the directory synced. So a process that dies
//! at any moment leaves the old login or the new one. The kernel releases its locks. A damaged file is renamed, never
//! deleted. Lock files stay, because deleting one could give two processes the same lock.

pub(crate) mod counters;
pub(crate) mod record;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use mendline::os::files::{Exposure, create_private_directories, exposure, identity, new_private_file};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::OAuthError;
use crate::login::LoginInfo;
pub use record::Identity;
use record::{Known, Login};

/// The format of the files.
const FORMAT: u64 = 1;

/// The largest file in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The interval at which a lock is tried.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Protects the contents of files. The file itself is for its owner alone in any case.
pub trait Seal: Send + Sync {
    /// Returns the bytes to store.
    ///
    /// # Errors
    ///
    /// When the key is not available.
    fn seal(&self, name: &str, plain: &[u8]) -> io::Result<Vec<u8>>;

    /// Returns the bytes that were sealed.
    ///
    /// # Errors
    ///
    /// When the key is not available or the bytes were changed.
    fn open(&self, name: &str, sealed: &[u8]) -> io::Result<Vec<u8>>;
}

/// Files without another protection than their permissions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Seal for Plain {
    fn seal(&self, _name: &str, plain: &[u8]) -> io::Result<Vec<u8>> {
        Ok(plain.to_vec())
    }

    fn open(&self, _name: &str, sealed: &[u8]) -> io::Result<Vec<u8>> {
        Ok(sealed.to_vec())
    }
}

/// The logins of this user: files in `credentials` in the state directory.
#[derive(Clone)]
pub struct Store {
    folder: PathBuf,
    seal: Arc<dyn Seal>,
}

/// The name of a login: a hash of the server's URL and the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(String);

/// The state of a file: it differs after each replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    identity: (u64, u64),
    modified: Option<SystemTime>,
    length: u64,
}

/// A lock, held until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Store {
    /// The store in a state directory. Nothing is created before the first login.
    pub fn new(state: &Path) -> Store {
        Store { folder: state.join("credentials"), seal: Arc::new(Plain) }
    }

    /// Sets the protection of the contents.
    pub fn seal(mut self, seal: impl Seal + 'static) -> Store {
        self.seal = Arc::new(seal);
        self
    }

    /// The folder of the files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns all stored logins, without their secrets. Damaged files are left out.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read or is open to others.
    pub fn logins(&self) -> Result<Vec<LoginInfo>, OAuthError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(&self.folder, &error)),
        };
        self.check_folder()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter(|name| name.starts_with("login-") && name.ends_with(".json")).collect();
        names.sort();
        let logins = names.iter().filter_map(|name| self.read::<Login>(name).ok().flatten());
        Ok(logins.map(|login| login.info()).collect())
    }

    pub(crate) fn key(server: &str, account: Option<&str>) -> Key {
        Key(format!("login-{}", hash(&[server, account.unwrap_or_default()])))
    }

    pub(crate) fn load(&self, key: &Key) -> Result<Option<Login>, OAuthError> {
        self.read_or_set_aside(&format!("{}.json", key.0))
    }

    pub(crate) async fn save(&self, key: &Key, login: &Login) -> Result<(), OAuthError> {
        self.write(format!("{}.json", key.0), login).await
    }

    pub(crate) fn delete(&self, key: &Key) -> Result<(), OAuthError> {
        let path = self.folder.join(format!("{}.json", key.0));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Returns the state of the file of a login; `None` if there is no file.
    pub(crate) fn stamp(&self, key: &Key) -> Option<Stamp> {
        let metadata = fs::symlink_metadata(self.folder.join(format!("{}.json", key.0))).ok()?;
        Some(Stamp { identity: identity(&metadata), modified: metadata.modified().ok(), length: metadata.len() })
    }

    pub(crate) fn known(&self, issuer: &str) -> Result<Known, OAuthError> {
        let found = self.read_or_set_aside::<Known>(&format!("issuer-{}.json", hash(&[issuer])))?;
        Ok(found.unwrap_or_else(|| Known { issuer: issuer.to_owned(), ..Known::default() }))
    }

    pub(crate) async fn save_known(&self, known: &Known) -> Result<(), OAuthError> {
        self.write(format!("issuer-{}.json", hash(&[&known.issuer])), known).await
    }

    /// Waits for the lock of renewals.
    pub(crate) async fn lock(&self, key: &Key, within: Duration) -> Result<Lock, OAuthError> {
        self.wait_for_lock(&format!("{}.lock", key.0), within).await
    }

    /// Takes the lock of interactive logins, if no other process has it.
    pub(crate) fn try_flow_lock(&self, key: &Key) -> Result<Option<Lock>, OAuthError> {
        self.try_lock(&format!("{}.flow", key.0))
    }

    async fn wait_for_lock(&self, name: &str, within: Duration) -> Result<Lock, OAuthError> {
        let deadline = tokio::time::Instant::now() + within;
        loop {
            if let Some(lock) = self.try_lock(name)? {
                return Ok(lock);
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(OAuthError::Locked { path: self.folder.join(name) });
            }
            tokio::time::sleep(LOCK_INTERVAL).await;
        }
    }

    fn try_lock(&self, name: &str) -> Result<Option<Lock>, OAuthError> {
        self.create_folder()?;
        let path = self.folder.join(name);
        let create = new_private_file().write(true).open(&path);
        let opened = match create {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => OpenOptions::new().write(true).open(&path),
            other => other,
        };
        let file = opened.map_err(|error| self.failed(&path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self.failed(&path, &error)),
        }
    }

    fn create_folder(&self) -> Result<(), OAuthError> {
        create_private_directories(&self.folder).map_err(|error| self.failed(&self.folder, &error))?;
        self.check_folder()
    }

    fn check_folder(&self) -> Result<(), OAuthError> {
        let metadata = fs::metadata(&self.folder).map_err(|error| self.failed(&self.folder, &error))?;
        self.check_access(&self.folder, &metadata, "700")
    }

    fn check_access(&self, path: &Path, metadata: &fs::Metadata, mode: &str) -> Result<(), OAuthError> {
        let why = match exposure(metadata) {
            None => return Ok(()),
            Some(Exposure::OtherOwner { uid }) => format!("it belongs to another user (uid {uid})"),
            Some(Exposure::OpenToOthers { .. }) => {
                format!("other users can access it; run: chmod {mode} '{}'", path.display())
            }
        };
        Err(OAuthError::Store { path: path.to_owned(), why })
    }

    fn failed(&self, path: &Path, error: &io::Error) -> OAuthError {
        OAuthError::Store { path: path.to_owned(), why: error.to_string() }
    }

    /// Reads a file. A damaged one is renamed and counts as absent.
    fn read_or_set_aside<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, OAuthError> {
        match self.read(name) {
            Err(ReadError::Damaged) => {
                self.set_aside(name)?;
                Ok(None)
            }
            Err(ReadError::Unusable(error)) => Err(error),
            Ok(found) => Ok(found),
        }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ReadError> {
        let path = self.folder.join(name);
        let unusable = |error: &io::Error| ReadError::Unusable(self.failed(&path, error));
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&error)),
        };
        if !found.is_file() {
            return Err(unusable(&io::Error::other("it is not a regular file")));
        }
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(&error)),
        };
        let metadata = file.metadata().map_err(|error| unusable(&error))?;
        self.check_access(&path, &metadata, "600").map_err(ReadError::Unusable)?;
        let mut sealed = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut sealed).map_err(|error| unusable(&error))?;
        let plain = self.seal.open(name, &sealed).map_err(|error| unusable(&error))?;
        self.parse(&path, &plain).map(Some)
    }

    fn parse<T: DeserializeOwned>(&self, path: &Path, plain: &[u8]) -> Result<T, ReadError> {
        let value: serde_json::Value = serde_json::from_slice(plain).map_err(|_| ReadError::Damaged)?;
        let format = value.get("version").and_then(serde_json::Value::as_u64).ok_or(ReadError::Damaged)?;
        if format > FORMAT {
            let why = format!("its format is {format}, and this version reads only {FORMAT}; update Mendline");
            return Err(ReadError::Unusable(OAuthError::Store { path: path.to_owned(), why }));
        }
        serde_json::from_value(value).map_err(|_| ReadError::Damaged)
    }

    /// Renames a damaged file to the first free `*.corrupt-N`.
    fn set_aside(&self, name: &str) -> Result<(), OAuthError> {
        let path = self.folder.join(name);
        let free = (1..1000).map(|number| self.folder.join(format!("{name}.corrupt-{number}"))).find(|it| !it.exists());
        let Some(aside) = free else {
            return Err(OAuthError::Store { path, why: "it is damaged, and so are 1000 earlier ones".to_owned() });
        };
        fs::rename(&path, &aside).map_err(|error| self.failed(&path, &error))
    }

    /// Returns the damaged files that were set aside.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.to_string_lossy().contains(".json.corrupt-")).collect()
    }

    /// Replaces a file durably. The disk may be slow, so another thread does it.
    async fn write<T: Serialize>(&self, name: String, value: &T) -> Result<(), OAuthError> {
        let path = self.folder.join(&name);
        let mut value = serde_json::to_value(value).map_err(|error| self.failed(&path, &io::Error::other(error)))?;
        value["version"] = FORMAT.into();
        let plain = value.to_string();
        let store = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            let sealed = store.seal.seal(&name, plain.as_bytes()).map_err(|error| store.failed(&path, &error))?;
            store.create_folder()?;
            replace(&path, &sealed).map_err(|error| store.failed(&path, &error))
        });
        written.await.unwrap_or_else(|error| Err(self.failed(&self.folder, &io::Error::other(error))))
    }
}

enum ReadError {
    Damaged,
    Unusable(OAuthError),
}

/// Replaces a file: the old one stays until the new one is on the disk.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{number}.new", std::process::id()));
    let temporary = PathBuf::from(name);
    // A process with the same number may have died here.
    let _ = fs::remove_file(&temporary);
    let written = (|| {
        let mut file = new_private_file().write(true).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Returns a file name for texts.
fn hash(texts: &[&str]) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    digest(&SHA256, &bytes).as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
