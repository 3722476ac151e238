//! The store of logins.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::OAuthError;
use crate::login::LoginInfo;

/// The logins of this user: files in `credentials` in the state directory.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A person at an authorization server, as far as it said who that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The id of the account at the issuer (`sub`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The address of mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The name of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Store {
    /// The store in a state directory. Nothing is created before the first login.
    pub fn new(state: &Path) -> Store {
        Store { folder: state.join("credentials") }
    }

    /// Returns all stored logins, without their secrets.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read or is open to others.
    pub fn logins(&self) -> Result<Vec<LoginInfo>, OAuthError> {
        let _ = &self.folder;
        Ok(Vec::new())
    }

    /// Returns the number of fruitless requests to an origin today, over all processes.
    pub fn fruitless_today(&self, origin: &str) -> u32 {
        let _ = origin;
        0
    }
}
