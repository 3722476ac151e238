//! The keys of sealed files, and where they come from.
//!
//! A key is fetched once for each process, by a thread of its own, because a keyring may hang for seconds. A keyring that
//! failed is left alone for a while.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mendline::decisions::Secret;
use mendline::os::keyring::{KeyringError, SystemKeyring};
use tokio::time::Instant;

use super::Store;
use super::seal::SealKey;
use crate::error::OAuthError;

/// The time for which a keyring that failed is not asked for a key to seal with.
const PAUSE: Duration = Duration::from_secs(60);

const LOCK: &str = "keyring.lock";
/// Longer than the time limit of the operations of a keyring.
const LOCK_WITHIN: Duration = Duration::from_secs(20);

/// A store of keys that only this user can read. Its operations wait up to a few seconds.
pub trait Keyring: Send + Sync {
    /// Returns the keys of Mendline.
    ///
    /// # Errors
    ///
    /// When there is no keyring, or it is locked or does not answer.
    fn keys(&self) -> Result<Vec<Secret>, KeyringError>;

    /// Stores a key.
    ///
    /// # Errors
    ///
    /// As [`Keyring::keys`].
    fn add(&self, key: &Secret) -> Result<(), KeyringError>;
}

impl Keyring for SystemKeyring {
    fn keys(&self) -> Result<Vec<Secret>, KeyringError> {
        SystemKeyring::keys(self)
    }

    fn add(&self, key: &Secret) -> Result<(), KeyringError> {
        SystemKeyring::add(self, key)
    }
}

/// The use of the keyring for files that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sealing {
    /// Files are sealed if there is a keyring that is not locked.
    #[default]
    Auto,
    /// Nothing is stored without a key in the keyring.
    Always,
    /// Files are not sealed. A sealed one can still be read.
    Never,
}

impl Sealing {
    /// The words in the configuration.
    pub const NAMES: [&'static str; 3] = ["auto", "always", "never"];

    /// Parses the word in the configuration.
    pub fn parse(word: &str) -> Option<Sealing> {
        let values = [Sealing::Auto, Sealing::Always, Sealing::Never];
        Sealing::NAMES.into_iter().zip(values).find(|(name, _)| *name == word).map(|(_, value)| value)
    }
}

/// The keys of a store.
#[derive(Clone, Default)]
pub(super) struct Keys {
    keyring: Option<Arc<dyn Keyring>>,
    sealing: Sealing,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Default)]
struct Cache {
    keys: Vec<SealKey>,
    /// The last failure, and its time.
    failed: Option<(KeyringError, Instant)>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?})", self.sealing)
    }
}

impl Keys {
    pub(super) fn new(keyring: Arc<dyn Keyring>, sealing: Sealing) -> Keys {
        Keys { keyring: Some(keyring), sealing, cache: Arc::default() }
    }

    /// Returns whether files are not to be sealed.
    pub(super) fn is_off(&self) -> bool {
        self.keyring.is_some() && self.sealing == Sealing::Never
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<SealKey> {
        self.cache().keys.first().cloned()
    }

    fn by_id(&self, id: &str) -> Option<SealKey> {
        self.cache().keys.iter().find(|key| key.id() == id).cloned()
    }

    /// Asks the keyring for its keys, or gives it one first.
    async fn ask(&self, add: Option<SealKey>) -> Result<(), KeyringError> {
        let Some(keyring) = self.keyring.clone() else {
            return Err(KeyringError::NoKeyring { why: "no keyring is set up".to_owned() });
        };
        let asked = tokio::task::spawn_blocking(move || {
            if let Some(key) = add {
                keyring.add(key.secret())?;
            }
            keyring.keys()
        });
        let keys = asked.await.unwrap_or(Err(KeyringError::Malformed));
        let mut cache = self.cache();
        match keys {
            Ok(keys) => {
                let mut keys: Vec<SealKey> = keys.into_iter().filter_map(SealKey::parse).collect();
                // All processes use the same one of several.
                keys.sort_by(|one, other| one.id().cmp(other.id()));
                cache.keys = keys;
                cache.failed = None;
                Ok(())
            }
            Err(error) => {
                cache.failed = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }
}

impl Store {
    /// Sets the keyring, and its use for files that are written.
    pub fn keyring(mut self, keyring: impl Keyring + 'static, sealing: Sealing) -> Store {
        self.keys = Keys::new(Arc::new(keyring), sealing);
        self
    }

    /// Returns the reason why files are not sealed, if that is for want of a keyring.
    pub fn unsealed_because(&self) -> Option<KeyringError> {
        let cache = self.keys.cache();
        let failed = cache.failed.as_ref().filter(|_| self.keys.sealing == Sealing::Auto && cache.keys.is_empty());
        failed.map(|(error, _)| error.clone())
    }

    /// Gets the key before something is received that has to be stored.
    pub(crate) async fn prepare(&self) -> Result<(), OAuthError> {
        self.key_to_seal().await.map(drop)
    }

    /// Returns the key for files that are written; `None` means that they are not sealed.
    pub(super) async fn key_to_seal(&self) -> Result<Option<SealKey>, OAuthError> {
        if self.keys.keyring.is_none() || self.keys.sealing == Sealing::Never {
            return Ok(None);
        }
        match (self.first_key().await, self.keys.sealing) {
            (Ok(key), _) => Ok(Some(key)),
            (Err(OAuthError::NoSeal { .. }), Sealing::Auto) => Ok(None),
            (Err(error), _) => Err(error),
        }
    }

    /// Returns the key with this id; `None` means that the keyring has no such key.
    pub(super) async fn key_by_id(&self, id: &str) -> Result<Option<SealKey>, KeyringError> {
        if let Some(key) = self.keys.by_id(id) {
            return Ok(Some(key));
        }
        self.keys.ask(None).await?;
        Ok(self.keys.by_id(id))
    }

    async fn first_key(&self) -> Result<SealKey, OAuthError> {
        if let Some(key) = self.keys.first() {
            return Ok(key);
        }
        let failed = self.keys.cache().failed.clone();
        if let Some((why, _)) = failed.filter(|(_, at)| at.elapsed() < PAUSE) {
            return Err(OAuthError::NoSeal { why });
        }
        let no_seal = |why| OAuthError::NoSeal { why };
        self.keys.ask(None).await.map_err(no_seal)?;
        if let Some(key) = self.keys.first() {
            return Ok(key);
        }
        // Only one process creates a key.
        let _lock = self.wait_for_lock(LOCK, LOCK_WITHIN).await?;
        self.keys.ask(None).await.map_err(no_seal)?;
        if self.keys.first().is_none() {
            let random = || self.failed(self.folder(), &io::Error::other("there are no random numbers"));
            let key = SealKey::random().ok_or_else(random)?;
            self.keys.ask(Some(key)).await.map_err(no_seal)?;
        }
        self.keys.first().ok_or(OAuthError::NoSeal { why: KeyringError::Malformed })
    }
}

#[cfg(test)]
mod tests;
