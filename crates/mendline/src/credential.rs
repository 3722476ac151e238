//! Credentials of servers, and their sources.
//!
//! A [`CredentialSource`] gives the headers that authorize requests to one server: from a variable, a file, a command, or
//! a login. It is read at the start, when the server has refused its last credential, when that is about to expire, and
//! when the source has changed. The keeper of the server (`keeper`) does that. [`CredentialCell`] holds the current
//! credential for the transport. The sources of this crate are [`VariableSource`], [`FileSource`] and [`CommandSource`].

mod cell;
mod command;
mod file;
mod form;
mod keeper;
mod schedule;
mod variable;

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use mendline_core::Secret;
use mendline_core::reason::CredentialError;

pub use cell::CredentialCell;
pub(crate) use cell::CredentialHeaders;
pub use command::CommandSource;
pub use file::FileSource;
pub use form::{FormFault, HeaderForm, TokenFault};
pub(crate) use keeper::{Keeper, KeeperHandle};
pub use variable::VariableSource;

use crate::transport::http::Challenge;

/// The headers that authorize requests to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The headers. They replace configured ones of the same name.
    pub headers: Vec<(String, Secret)>,
    /// The time at which the credential expires, if that is known.
    pub expires_at: Option<SystemTime>,
}

impl Credential {
    /// A bearer token without a known expiry.
    pub fn bearer(token: &Secret) -> Credential {
        let value = Secret::new(format!("Bearer {}", token.expose()));
        Credential { headers: vec![("Authorization".to_owned(), value)], expires_at: None }
    }

    /// Sets the time at which the credential expires.
    pub fn expires_at(mut self, time: Option<SystemTime>) -> Credential {
        self.expires_at = time;
        self
    }
}

/// The reason why a source is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It is read for the first time.
    Start,
    /// The server refused the last credential.
    Refused {
        /// The challenges of the refusal, if it had any.
        challenges: Vec<Challenge>,
    },
    /// The last credential expires soon. It stays in use if there is no newer one yet.
    Expiring,
    /// The source may have changed.
    Changed,
}

/// The future of a source.
pub type SourceFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A source of the credential of one server.
///
/// One task uses it, so its methods never run at the same time. Their futures may be dropped and must lose nothing.
pub trait CredentialSource: Send + 'static {
    /// Returns the credential to use from now on. `Ok(None)` means that requests are sent without one.
    ///
    /// After [`Occasion::Refused`] the source tries to get a newer credential than the last one. If there is none, it
    /// returns the last one again or an error.
    fn read<'a>(&'a mut self, occasion: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>>;

    /// Returns the time for which the source asks not to be read again, after a read that failed.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Learns that the server refused this many requests, and that there is no newer credential for them.
    fn note_fruitless(&mut self, count: u32) -> SourceFuture<'_, ()> {
        let _ = count;
        Box::pin(std::future::ready(()))
    }

    /// Completes when the source may have changed: a file, or the login by another process.
    fn changed(&mut self) -> SourceFuture<'_, ()>;
}
