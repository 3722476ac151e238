//! What is known of servers, on disk.
//!
//! One file per server and credential, in the user's state directory:
//! ```text
//! $MENDLINE_STATE_DIR | $XDG_STATE_HOME/mendline | ~/.local/state/mendline
//!   key                   32 random bytes of this user's own, made once
//!   catalogue/
//!     <identity>.json     what was last heard of one server
//!     <identity>.bad      one that was set aside: damaged, foreign, or of another format
//! ```
//! - `identity`: who a server is, and with which credential: a name that gives nothing away;
//! - `file`: one file: its format, its seal, and whom it may belong to;
//! - `keeper`: writes in the background, and never in anybody's way.
//!
//! Nothing in here can stop a call. What cannot be read is as if it were not there; what cannot be written is said once.

mod file;
mod identity;
mod keeper;

use std::path::Path;

use mendline_core::ListCache;

use crate::observe::log::{LogHandle, LogLevel};
use crate::observe::redact::Redactor;
pub use crate::state::state_directory;
use file::{File, Found};
pub use identity::{Identity, is_credential};
pub use keeper::DiskKeeper;
use keeper::Writer;

/// What is kept of a server, for somebody who only looks: nothing is made, set aside or said.
pub fn peek(state: &Path, identity: &Identity) -> Option<ListCache> {
    match File::find(state, identity)?.read() {
        Found::ListCache(cached) => Some(cached),
        Found::Nothing | Found::Untrusted(_) => None,
    }
}

/// The place of one server's catalogue.
pub struct CatalogueFile {
    file: File,
    identity: Identity,
    log: LogHandle,
    redactor: Redactor,
}

impl CatalogueFile {
    /// The place for this server. `None`, and said why, when there can be none.
    pub fn open(state: &Path, identity: Identity, log: LogHandle) -> Option<CatalogueFile> {
        match File::open(state, &identity) {
            Ok(file) => Some(CatalogueFile { file, identity, log, redactor: Redactor::default() }),
            Err(error) => {
                log.write(LogLevel::Warn, &format!("nothing is kept of the server for the next time: {error}"));
                None
            }
        }
    }

    /// Keeps nothing in which this one knows a secret.
    #[must_use]
    pub fn hiding(self, redactor: Redactor) -> CatalogueFile {
        CatalogueFile { redactor, ..self }
    }

    /// What was kept, grown older by the time that has passed.
    pub fn read(&self) -> Option<ListCache> {
        match self.file.read() {
            Found::Nothing => None,
            Found::ListCache(cached) => Some(cached),
            Found::Untrusted(why) => {
                let done = match self.file.set_aside() {
                    Ok(to) => format!("set aside as {}", to.display()),
                    Err(error) => format!("and could not be set aside ({error})"),
                };
                let text = format!("what was kept of the server is not trusted: {why}; {done}");
                self.log.write(LogLevel::Warn, &text);
                None
            }
        }
    }

    /// Keeps what there is to keep from now on.
    pub fn keeper(self) -> DiskKeeper {
        let CatalogueFile { file, identity, log, redactor } = self;
        redactor.learn(&identity.into_secrets());
        DiskKeeper::new(Writer::new(file, redactor, log))
    }
}
