//! OAuth for MCP servers: discovery, registration, login, and logins that survive.
//!
//! A login is lost for three reasons: two processes use one rotating refresh token, a passing fault is taken for the end
//! of the login, or a new token is used before it is on disk. So there is one refresher per login across processes
//! ([`store`]), only a repeated `invalid_grant` ends a login ([`source`]), and a token is stored before it is used.
//!
//! Reading is tolerant, security is strict: texts of servers are compared as they were sent, and addresses that a server
//! names are checked before use. All requests go through [`http::HttpClient`].

mod assertion;
mod authorize;
mod callback;
mod device;
pub mod discovery;
pub mod error;
pub mod http;
mod identity;
pub mod login;
mod mcp_remote;
mod md5;
pub mod metadata;
mod pkce;
pub mod profile;
mod registration;
mod renew;
mod revoke;
pub mod settings;
pub mod source;
pub mod store;
#[cfg(test)]
mod testing;
mod text;
mod token;
pub mod ui;
mod url;

use std::sync::Arc;
use std::time::SystemTime;

use mendline::observe::redact::Redactor;

pub use discovery::{Discovered, discover};
pub use error::OAuthError;
pub use login::{LoggedIn, LoggedOut, LoginInfo, LoginOptions, Way, login, login_of, logout, token};
pub use registration::needs_client;
pub use renew::finish_renewals;
pub use settings::{ClientCredentialsSettings, Settings};
pub use source::{ClientCredentialsSource, LimitedSource, OAuthSource};
pub use store::{Keyring, Sealing, Store};
pub use ui::{LoginUi, Progress};

/// The parts that every operation needs: an HTTP client, the store of logins, the redactor and the clock.
#[derive(Clone)]
pub struct OAuth {
    http: Arc<dyn http::HttpClient>,
    store: Store,
    redactor: Redactor,
    clock: Clock,
    notices: Notices,
}

/// The receiver of notices for the operator.
type Notices = Arc<dyn Fn(&str) + Send + Sync>;

/// The clock of this machine, which a test may replace.
type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}

impl OAuth {
    /// Puts the parts together.
    pub fn new(http: Arc<dyn http::HttpClient>, store: Store) -> OAuth {
        OAuth { http, store, redactor: Redactor::default(), clock: system_clock(), notices: Arc::new(|_| {}) }
    }

    /// Sets the redactor, which learns every secret before it is used.
    pub fn redactor(mut self, redactor: Redactor) -> OAuth {
        self.redactor = redactor;
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> OAuth {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the receiver of notices for the operator: troubles in spite of which a login works.
    pub fn notices(mut self, receiver: impl Fn(&str) + Send + Sync + 'static) -> OAuth {
        self.notices = Arc::new(receiver);
        self
    }

    fn notify(&self, notice: &str) {
        (self.notices)(notice);
    }

    /// The store of logins.
    pub fn store(&self) -> &Store {
        &self.store
    }
}
