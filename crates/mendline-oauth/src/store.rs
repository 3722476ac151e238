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
//!
//! With a keyring the secrets in the files are sealed (`seal`), with a key that the keyring holds (`keys`).

pub(crate) mod counters;
mod keys;
pub(crate) mod record;
mod seal;
mod temporary;
mod unsaved;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mendline::decisions::Secret;
use mendline::os::files::{Exposure, create_private_directories, exposure, identity, new_private_file};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::OAuthError;
use crate::login::LoginInfo;
use keys::Keys;
pub use keys::{Keyring, Sealing};
pub use record::Identity;
use record::{Known, Login};
pub(crate) use temporary::Temporary;

/// The format of the files.
const FORMAT: u64 = 1;

/// The format of sealed files, which earlier versions must not take for damaged ones.
const SEALED_FORMAT: u64 = 2;

/// The limit for waiting for a renewal before a login is sealed.
const CONVERT_WITHIN: Duration = Duration::from_secs(45);

/// The largest file in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The age of a temporary file whose process has surely died.
const REMAINS_AFTER: Duration = Duration::from_secs(60 * 60);

/// The interval at which a lock is tried.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The contents of a file.
pub(crate) trait Contents: Serialize + DeserializeOwned {
    /// The members with secrets, as JSON pointers. They are sealed.
    const SECRETS: &'static [&'static str] = &[];
}

/// The logins of this user: files in `credentials` in the state directory.
#[derive(Clone)]
pub struct Store {
    folder: PathBuf,
    keys: Keys,
    /// The disk is full: before the space is reserved, or only afterwards.
    #[cfg(test)]
    pub(crate) full: std::sync::Arc<std::sync::Mutex<Option<Full>>>,
}

/// A full disk.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Always,
    AfterReserve,
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
    path: PathBuf,
    /// Present until the drop.
    file: Option<File>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            unsaved::return_lock(&self.path, file);
        }
    }
}

impl Store {
    /// The store in a state directory. Nothing is created before the first login.
    pub fn new(state: &Path) -> Store {
        Store {
            folder: state.join("credentials"),
            keys: Keys::default(),
            #[cfg(test)]
            full: std::sync::Arc::default(),
        }
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
        Ok(names.iter().filter_map(|name| self.info(name).ok().flatten()).collect())
    }

    /// Returns what a person should know about files that cannot be used: logins that others can read, with the
    /// `chmod` to run, and damaged files, which are set aside.
    pub fn troubles(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter(|name| name.starts_with("login-") && name.ends_with(".json")).collect();
        names.sort();
        let unusable = names.iter().filter_map(|name| match self.info(name) {
            Err(ReadError::Unusable(error)) => Some(error.to_string()),
            Err(ReadError::Damaged) => {
                Some(format!("the login in {} is damaged; log in again", self.folder.join(name).display()))
            }
            Ok(_) => None,
        });
        let aside = self.damaged().into_iter().map(|path| {
            format!(
                "a damaged file was set aside: {}; log in again if a login is missing, then delete it",
                path.display()
            )
        });
        unusable.chain(aside).collect()
    }

    /// Returns a stored login without its secrets. That needs no key.
    pub(crate) fn login_info(&self, key: &Key) -> Result<Option<LoginInfo>, OAuthError> {
        match self.info(&format!("{}.json", key.0)) {
            Err(ReadError::Damaged) => Ok(None),
            Err(ReadError::Unusable(error)) => Err(error),
            Ok(info) => Ok(info),
        }
    }

    fn info(&self, name: &str) -> Result<Option<LoginInfo>, ReadError> {
        let Some(file) = self.read(name)? else { return Ok(None) };
        let sealed = seal::key_id(&file).is_some();
        let login: Login = contents(file)?;
        Ok(Some(LoginInfo { sealed, ..login.info() }))
    }

    pub(crate) fn key(server: &str, account: Option<&str>) -> Key {
        Key(format!("login-{}", hash(&[server, account.unwrap_or_default()])))
    }

    pub(crate) async fn load(&self, key: &Key) -> Result<Option<Login>, OAuthError> {
        if let Some(login) = self.unsaved(key).await {
            return Ok(Some(login));
        }
        self.open_or_set_aside(&format!("{}.json", key.0)).await
    }

    /// Returns a login without opening it: a sealed one has empty secrets.
    pub(crate) fn peek(&self, key: &Key) -> Result<Option<Login>, OAuthError> {
        self.read_or_set_aside(&format!("{}.json", key.0))
    }

    /// Seals a login and what is known about its issuer, or writes them unsealed, as it is configured now.
    pub(crate) async fn convert(&self, key: &Key) -> Result<(), OAuthError> {
        // The keyring is left alone while there is nothing to seal.
        let Some(info) = self.login_info(key)? else { return Ok(()) };
        let wants_seal = self.key_to_seal().await?.is_some();
        if !wants_seal && !self.keys.is_off() {
            return Ok(());
        }
        let is_other =
            |name: &str| self.read(name).ok().flatten().is_some_and(|file| seal::key_id(&file).is_some() != wants_seal);
        let issuer = issuer_file(&info.issuer);
        if is_other(&issuer)
            && let Some(known) = self.open_or_set_aside::<Known>(&issuer).await?
        {
            self.save_known(&known).await?;
        }
        if is_other(&format!("{}.json", key.0)) {
            let _lock = self.lock(key, CONVERT_WITHIN).await?;
            if let Some(login) = self.load(key).await? {
                self.save(key, &login).await?;
            }
        }
        Ok(())
    }

    /// Writes a login. The caller has its lock.
    pub(crate) async fn save(&self, key: &Key, login: &Login) -> Result<(), OAuthError> {
        self.write(format!("{}.json", key.0), login, None).await?;
        self.forget_unsaved(key);
        Ok(())
    }

    pub(crate) fn lock_path(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.lock", key.0))
    }

    /// Deletes a login. The caller has its lock.
    pub(crate) fn delete(&self, key: &Key) -> Result<(), OAuthError> {
        self.forget_unsaved(key);
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

    /// Returns what is known about an issuer. Without its key, a client that has a secret is of no use.
    pub(crate) async fn known(&self, issuer: &str) -> Result<Known, OAuthError> {
        let name = issuer_file(issuer);
        let found = match self.open_or_set_aside::<Known>(&name).await {
            Err(error) if error.awaits_keyring() => self.read_or_set_aside::<Known>(&name)?.map(|known| {
                let registration = known.registration.filter(|client| client.secret.is_none());
                Known { registration, ..known }
            }),
            found => found?,
        };
        Ok(found.unwrap_or_else(|| Known { issuer: issuer.to_owned(), ..Known::default() }))
    }

    pub(crate) async fn save_known(&self, known: &Known) -> Result<(), OAuthError> {
        self.write(issuer_file(&known.issuer), known, None).await
    }

    /// Waits for the lock of renewals. What a process that died has left of this login is deleted.
    pub(crate) async fn lock(&self, key: &Key, within: Duration) -> Result<Lock, OAuthError> {
        let lock = self.wait_for_lock(&format!("{}.lock", key.0), within).await?;
        self.delete_remains(key);
        Ok(lock)
    }

    /// Deletes temporary files, which may hold tokens: those of this login, whose lock the caller has, and old ones.
    fn delete_remains(&self, key: &Key) {
        let own = format!("{}.json.", key.0);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_old = || {
                let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
                modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age >= REMAINS_AFTER)
            };
            if name.ends_with(temporary::SUFFIX) && (name.starts_with(&own) || is_old()) {
                let _ = fs::remove_file(entry.path());
            }
        }
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
            Ok(()) => Ok(Some(Lock { path, file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(unsaved::take_lock(&path).map(|file| Lock { path, file: Some(file) })),
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

    /// Reads a file without opening what is sealed. A damaged one is renamed and counts as absent.
    fn read_or_set_aside<T: Contents>(&self, name: &str) -> Result<Option<T>, OAuthError> {
        self.or_set_aside(name, self.read(name).and_then(|file| file.map(contents).transpose()))
    }

    /// Reads a file, and opens it if it is sealed. A damaged one is renamed and counts as absent.
    async fn open_or_set_aside<T: Contents>(&self, name: &str) -> Result<Option<T>, OAuthError> {
        let opened = self.open(name).await;
        self.or_set_aside(name, opened)
    }

    async fn open<T: Contents>(&self, name: &str) -> Result<Option<T>, ReadError> {
        let Some(mut file) = self.read(name)? else { return Ok(None) };
        if let Some(id) = seal::key_id(&file) {
            let path = self.folder.join(name);
            let key = match self.key_by_id(id).await {
                Ok(Some(key)) => key,
                Ok(None) => return Err(ReadError::Unusable(OAuthError::KeyLost { path })),
                Err(why) => return Err(ReadError::Unusable(OAuthError::Sealed { path, why })),
            };
            key.open(name, &mut file).map_err(|_| ReadError::Damaged)?;
        }
        contents(file).map(Some)
    }

    fn or_set_aside<T>(&self, name: &str, read: Result<Option<T>, ReadError>) -> Result<Option<T>, OAuthError> {
        match read {
            Err(ReadError::Damaged) => {
                self.set_aside(name)?;
                Ok(None)
            }
            Err(ReadError::Unusable(error)) => Err(error),
            Ok(found) => Ok(found),
        }
    }

    fn read(&self, name: &str) -> Result<Option<Value>, ReadError> {
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
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| unusable(&error))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| ReadError::Damaged)?;
        let format = value.get("version").and_then(Value::as_u64).ok_or(ReadError::Damaged)?;
        if format > SEALED_FORMAT {
            let why = format!("its format is {format}, and this version reads only {SEALED_FORMAT}; update Mendline");
            return Err(ReadError::Unusable(OAuthError::Store { path, why }));
        }
        Ok(Some(value))
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
        let mut paths: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().contains(".json.corrupt-")).collect();
        paths.sort();
        paths
    }

    /// Replaces a file durably. The disk may be slow, so another thread does it.
    async fn write<T: Contents>(&self, name: String, contents: &T, space: Option<Temporary>) -> Result<(), OAuthError> {
        let path = self.folder.join(&name);
        let key = if T::SECRETS.is_empty() { None } else { self.key_to_seal().await? };
        let mut file = serde_json::to_value(contents).map_err(|error| self.failed(&path, &io::Error::other(error)))?;
        file["version"] = FORMAT.into();
        if let Some(key) = key {
            file["version"] = SEALED_FORMAT.into();
            let unsealable = |_| self.failed(&path, &io::Error::other("it cannot be sealed"));
            key.seal(&name, &mut file, T::SECRETS).map_err(unsealable)?;
        }
        let text = Secret::new(file.to_string());
        let store = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            store.create_folder()?;
            #[cfg(test)]
            store.check_full(Full::AfterReserve).map_err(|error| store.failed(&path, &error))?;
            let space = space.map_or_else(|| Temporary::create(&path), Ok);
            let replaced = space.and_then(|space| space.replace(text.expose().as_bytes()));
            replaced.map_err(|error| store.failed(&path, &error))
        });
        written.await.unwrap_or_else(|error| Err(self.failed(&self.folder, &io::Error::other(error))))
    }

    /// Fails if the disk is full at this step.
    #[cfg(test)]
    fn check_full(&self, step: Full) -> io::Result<()> {
        let full = *self.full.lock().unwrap();
        let fails = full == Some(Full::Always) || full == Some(step);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

enum ReadError {
    Damaged,
    Unusable(OAuthError),
}

fn contents<T: Contents>(file: Value) -> Result<T, ReadError> {
    serde_json::from_value(file).map_err(|_| ReadError::Damaged)
}

fn issuer_file(issuer: &str) -> String {
    format!("issuer-{}.json", hash(&[issuer]))
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
