//! The keyring of the desktop session, which holds keys of this program.
//!
//! It makes the few calls of D-Bus that this takes itself: a library for D-Bus would add more than seventy crates (ADR
//! 29).

mod bus;
mod secret_service;
mod value;

use std::ffi::OsString;
use std::fmt;
use std::time::{Duration, Instant};

use mendline_core::Secret;
use rustix::net::SocketAddrUnix;

use self::bus::Bus;
use self::secret_service::SecretService;

/// The time limit of one operation. A keyring that is well answers within milliseconds; the first call may start it.
const LIMIT: Duration = Duration::from_secs(5);

/// The reason why the keyring gives or takes no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyringError {
    /// There is no keyring in this session.
    NoKeyring {
        /// The reason.
        why: String,
    },
    /// The keyring is locked.
    Locked,
    /// The keyring did not answer in time.
    TimedOut,
    /// The keyring sent an answer that cannot be read.
    Malformed,
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyringError::NoKeyring { why } => f.write_str(why),
            KeyringError::Locked => f.write_str("the system keyring is locked"),
            KeyringError::TimedOut => {
                write!(f, "the system keyring did not answer within {} s", LIMIT.as_secs())
            }
            KeyringError::Malformed => f.write_str("the system keyring sent an answer that cannot be read"),
        }
    }
}

impl std::error::Error for KeyringError {}

/// The keyring of the desktop session.
#[derive(Clone, Debug)]
pub struct SystemKeyring {
    addresses: Vec<SocketAddrUnix>,
    limit: Duration,
}

impl SystemKeyring {
    /// The keyring that these variables, or the usual sockets, lead to. Nothing is contacted yet.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> SystemKeyring {
        SystemKeyring { addresses: bus::addresses(variable), limit: LIMIT }
    }

    /// Returns the keys that are stored. Waits up to a few seconds.
    ///
    /// # Errors
    ///
    /// When there is no keyring, or it is locked or does not answer.
    pub fn keys(&self) -> Result<Vec<Secret>, KeyringError> {
        self.open()?.keys()
    }

    /// Stores a key. Waits up to a few seconds.
    ///
    /// # Errors
    ///
    /// When there is no keyring, or it is locked or does not answer.
    pub fn add(&self, key: &Secret) -> Result<(), KeyringError> {
        self.open()?.add(key)
    }

    fn open(&self) -> Result<SecretService, KeyringError> {
        if self.addresses.is_empty() {
            return Err(KeyringError::NoKeyring { why: "there is no session bus here".to_owned() });
        }
        SecretService::open(Bus::connect(&self.addresses, Instant::now() + self.limit)?)
    }
}

#[cfg(test)]
mod tests;
