//! The storage of a renewed login, and renewed logins that could not be written.
//!
//! The space on the disk is taken before the server is asked: with a full disk nothing is renewed, and nothing is lost. A
//! server that rotates refresh tokens has ended the old one when the new one arrives. If the disk fails at this moment,
//! the new tokens are used from memory and written at every later opportunity. Until then this process keeps the lock of
//! the login: another process would send the old token, and the server would take that for theft and end the login.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::record::Login;
use super::{Key, Lock, Store, Temporary};
use crate::error::OAuthError;

/// The space that a renewed login may need in addition to the old one.
const RESERVE: u64 = 16 * 1024;

/// The unsaved logins of this process, by the path of their lock.
static UNSAVED: Mutex<BTreeMap<PathBuf, Unsaved>> = Mutex::new(BTreeMap::new());

struct Unsaved {
    store: Store,
    key: Key,
    login: Login,
    /// The lock, while no operation of this process has it.
    lock: Option<File>,
}

fn all() -> MutexGuard<'static, BTreeMap<PathBuf, Unsaved>> {
    UNSAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Takes space for a renewed login, before the server rotates its tokens. The caller has its lock.
    pub(crate) async fn reserve(&self, key: &Key) -> Result<Temporary, OAuthError> {
        let path = self.folder.join(format!("{}.json", key.0));
        let store = self.clone();
        let reserved = tokio::task::spawn_blocking(move || {
            let reserve = || {
                #[cfg(test)]
                store.check_full(super::Full::Always)?;
                let length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                let mut file = Temporary::create(&path)?;
                file.reserve(length + RESERVE)?;
                Ok(file)
            };
            reserve().map_err(|error| store.failed(&path, &error))
        });
        reserved.await.unwrap_or_else(|error| Err(self.failed(&self.folder, &io::Error::other(error))))
    }

    /// Writes a renewed login into the reserved space. If that fails, this process keeps the login and its lock, and
    /// writes it later.
    pub(crate) async fn save_renewed(&self, key: &Key, login: &Login, space: Temporary) -> Result<(), OAuthError> {
        let written = self.write(format!("{}.json", key.0), login, Some(space)).await;
        match &written {
            Ok(()) => self.forget_unsaved(key),
            Err(_) => self.keep_unsaved(key, login),
        }
        written
    }

    /// Keeps a login. The lock stays here when the operation that has it drops it.
    fn keep_unsaved(&self, key: &Key, login: &Login) {
        let path = self.lock_path(key);
        let mut all = all();
        let lock = all.remove(&path).and_then(|old| old.lock);
        all.insert(path, Unsaved { store: self.clone(), key: key.clone(), login: login.clone(), lock });
    }

    /// Forgets a login that was kept, because it was written, replaced or deleted.
    pub(super) fn forget_unsaved(&self, key: &Key) {
        let forgotten = all().remove(&self.lock_path(key));
        drop(forgotten);
    }

    /// Returns a login that this process has renewed and could not write; tries to write it.
    pub(crate) async fn unsaved(&self, key: &Key) -> Option<Login> {
        let path = self.lock_path(key);
        let login = all().get(&path)?.login.clone();
        // Without the lock, another operation of this process is at work.
        if let Some(file) = take_lock(&path) {
            let _lock = Lock { path: path.clone(), file: Some(file) };
            // It may have been renewed again before the lock was taken.
            let newest = all().get(&path)?.login.clone();
            let _ = self.save(key, &newest).await;
            return Some(newest);
        }
        Some(login)
    }

    /// Tries to write all logins of this process that are not written.
    pub(crate) async fn write_unsaved() {
        let kept: Vec<(Store, Key)> = all().values().map(|kept| (kept.store.clone(), kept.key.clone())).collect();
        for (store, key) in kept {
            store.unsaved(&key).await;
        }
    }
}

/// Takes the lock for an operation of this process.
pub(super) fn take_lock(lock: &Path) -> Option<File> {
    all().get_mut(lock)?.lock.take()
}

/// Gives the lock back. It is released if the login is saved.
pub(super) fn return_lock(lock: &Path, file: File) {
    match all().get_mut(lock) {
        Some(kept) => kept.lock = Some(file),
        None => drop(file),
    }
}
