//! The list cache of servers on disk.
//!
//! One file per server and credential, in the user's state directory:
//! ```text
//! $MENDLINE_STATE_DIR | $XDG_STATE_HOME/mendline | ~/.local/state/mendline
//!   key                   32 random bytes of this user, created once
//!   catalogue/
//!     <identity>.json     the list cache of one server
//!     <identity>.bad      a rejected file: damaged, foreign, or of another format
//! ```
//! - `identity`: a server and its credential, and the file name that is derived from them;
//! - `file`: the format, the authentication and the ownership of one file;
//! - `keeper`: writes files on a background thread.
//!
//! No error in this module stops a call. A file that cannot be read is treated as missing. A write error is logged
//! once.

mod file;
mod identity;
mod store;

use std::path::Path;

use mendline_core::ListCache;

use crate::observe::log::{LogHandle, LogLevel};
use crate::observe::redact::Redactor;
pub use crate::state::state_directory;
use file::{File, Found};
pub use identity::Identity;
pub(crate) use identity::is_credential;
pub use store::DiskStore;
use store::Writer;

/// Reads the list cache of a server. Creates, renames and logs nothing.
pub fn peek(state: &Path, identity: &Identity) -> Option<ListCache> {
    match File::find(state, identity)?.read() {
        Found::ListCache(cached) => Some(cached),
        Found::Nothing | Found::Untrusted(_) => None,
    }
}

/// The catalogue file of one server.
pub struct CatalogueFile {
    file: File,
    identity: Identity,
    log: LogHandle,
    redactor: Redactor,
}

impl CatalogueFile {
    /// Opens the file of this server. Returns `None` and logs the reason if the state directory cannot be used.
    pub fn open(state: &Path, identity: Identity, log: LogHandle) -> Option<CatalogueFile> {
        match File::open(state, &identity) {
            Ok(file) => Some(CatalogueFile { file, identity, log, redactor: Redactor::default() }),
            Err(error) => {
                let text =
                    format!("cannot open the catalogue of the server: {error}; its lists are not cached on disk");
                log.write(LogLevel::Warn, &text);
                None
            }
        }
    }

    /// Rejects a list cache that contains a secret of this redactor.
    #[must_use]
    pub fn hiding(self, redactor: Redactor) -> CatalogueFile {
        CatalogueFile { redactor, ..self }
    }

    /// Reads the list cache; the time since it was written is added to the age of its entries.
    pub fn read(&self) -> Option<ListCache> {
        match self.file.read() {
            Found::Nothing => None,
            Found::ListCache(cached) => Some(cached),
            Found::Untrusted(why) => {
                let done = match self.file.set_aside() {
                    Ok(to) => format!("renamed to {}", to.display()),
                    Err(error) => format!("renaming it failed ({error})"),
                };
                let text = format!("the catalogue file of the server is rejected: {why}; {done}");
                self.log.write(LogLevel::Warn, &text);
                None
            }
        }
    }

    /// Returns a keeper that writes to this file.
    pub fn store(self) -> DiskStore {
        let CatalogueFile { file, identity, log, redactor } = self;
        redactor.learn(&identity.into_secrets());
        DiskStore::new(Writer::new(file, redactor, log))
    }
}
