//! The current credential of one server, shared by its keeper and its transport.
//!
//! The keeper stores a credential here and reports its number to the engine; the driver then makes the transport adopt
//! it. So the engine knows the number before the first exchange that uses the credential, and a request needs no lock.
//! The transport leaves the challenges of the last refusal here.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use http::header::{HeaderName, HeaderValue};
use tokio::sync::Notify;

use super::Credential;
use crate::transport::http::{Challenge, HeaderFault, header_to_send};

/// The most challenges of one refusal that are kept.
const MAX_CHALLENGES: usize = 8;

/// The current credential of one server.
pub struct CredentialCell {
    state: Mutex<State>,
    /// Notified by each refusal.
    refused: Notify,
}

struct State {
    number: u32,
    headers: Option<Arc<CredentialHeaders>>,
    expires_at: Option<SystemTime>,
    challenges: Vec<Challenge>,
    /// The number of refused requests that were not taken yet.
    refusals: u32,
    /// The source is about to be read, and exchanges wait for that.
    is_awaited: bool,
    waiting: Option<Waker>,
}

/// The headers of a credential, as they are sent.
pub(crate) struct CredentialHeaders {
    pub(crate) number: u32,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Default for CredentialCell {
    fn default() -> CredentialCell {
        CredentialCell::new()
    }
}

impl fmt::Debug for CredentialCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialCell({})", self.number())
    }
}

impl CredentialCell {
    /// Creates a cell without a credential.
    pub fn new() -> CredentialCell {
        let (challenges, waiting) = (Vec::new(), None);
        let state =
            State { number: 0, headers: None, expires_at: None, challenges, refusals: 0, is_awaited: false, waiting };
        CredentialCell { state: Mutex::new(state), refused: Notify::new() }
    }

    /// Stores a new credential and returns its number.
    pub fn store(&self, credential: &Credential) -> Result<u32, HeaderFault> {
        let headers = parsed(credential)?;
        let mut state = self.lock();
        state.number += 1;
        state.headers = Some(Arc::new(CredentialHeaders { number: state.number, headers }));
        state.expires_at = credential.expires_at;
        state.challenges.clear();
        state.stop_waiting();
        Ok(state.number)
    }

    /// Removes the credential: exchanges are sent without one from now on. Returns the new number.
    pub fn remove(&self) -> u32 {
        let mut state = self.lock();
        state.number += 1;
        state.headers = None;
        state.number
    }

    /// Withdraws a refused credential. Exchanges are sent without one, and the number stays.
    pub fn withdraw(&self) {
        self.lock().headers = None;
    }

    /// Returns the number of the last credential; 0 means that there was none.
    pub fn number(&self) -> u32 {
        self.lock().number
    }

    /// Returns the challenges of the last refusal since the last credential was stored.
    pub fn challenges(&self) -> Vec<Challenge> {
        self.lock().challenges.clone()
    }

    /// Withdraws the credential, and announces that a source is about to be read for the first time.
    pub(crate) fn expect_first(&self) {
        let mut state = self.lock();
        state.headers = None;
        state.challenges.clear();
        state.is_awaited = true;
    }

    /// Announces that the source is about to be read again, if the credential has expired. It stays until then.
    pub(crate) fn expect_next_if_expired(&self, now: SystemTime) {
        let mut state = self.lock();
        if state.headers.is_some() && state.expires_at.is_some_and(|at| at <= now) {
            state.is_awaited = true;
        }
    }

    /// Announces that the source was read, with or without a credential.
    pub(crate) fn was_read(&self) {
        self.lock().stop_waiting();
    }

    /// Becomes ready when the source was read.
    pub(crate) fn poll_read(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.is_awaited {
            return Poll::Ready(());
        }
        state.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns whether exchanges wait for the source, which is about to be read.
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().is_awaited
    }

    /// Returns the headers of the current credential.
    pub(crate) fn headers(&self) -> Option<Arc<CredentialHeaders>> {
        self.lock().headers.clone()
    }

    /// Keeps the challenges of a refusal.
    pub(crate) fn note_challenges(&self, mut challenges: Vec<Challenge>) {
        challenges.truncate(MAX_CHALLENGES);
        let mut state = self.lock();
        state.challenges = challenges;
        state.refusals = state.refusals.saturating_add(1);
        self.refused.notify_one();
    }

    /// Waits for the next refusal.
    pub(crate) async fn refusal(&self) {
        self.refused.notified().await;
    }

    /// Returns the number of refusals since the last call.
    pub(crate) fn take_refusals(&self) -> u32 {
        std::mem::take(&mut self.lock().refusals)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stop_waiting(&mut self) {
        self.is_awaited = false;
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }
}

impl Credential {
    /// Checks that HTTP allows the headers. The error names a header, never its value.
    pub fn check(&self) -> Result<(), HeaderFault> {
        parsed(self).map(drop)
    }
}

fn parsed(credential: &Credential) -> Result<Vec<(HeaderName, HeaderValue)>, HeaderFault> {
    credential.headers.iter().map(|(name, value)| header_to_send(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use mendline_core::Secret;

    use super::*;

    #[test]
    fn credentials_are_numbered_from_one() {
        let cell = CredentialCell::new();
        assert_eq!((cell.number(), cell.headers().is_none()), (0, true));
        let first = Credential::bearer(&Secret::new("hunter2"));
        assert_eq!((cell.store(&first).unwrap(), cell.store(&first).unwrap()), (1, 2));
        let headers = cell.headers().unwrap();
        assert_eq!((headers.number, headers.headers[0].1.as_bytes()), (2, &b"Bearer hunter2"[..]));
        assert!(headers.headers[0].1.is_sensitive());
        cell.withdraw();
        assert_eq!((cell.number(), cell.headers().is_none()), (2, true));
        assert_eq!(format!("{cell:?}"), "CredentialCell(2)");
    }

    #[test]
    fn invalid_header_keeps_last_credential() {
        let cell = CredentialCell::new();
        cell.store(&Credential::bearer(&Secret::new("one"))).unwrap();
        let fault = cell.store(&Credential::bearer(&Secret::new("hunter2\nx: y"))).unwrap_err();
        assert_eq!(fault.to_string(), "the header \"Authorization\" has a value that HTTP does not allow");
        assert_eq!(cell.headers().unwrap().number, 1);
    }

    #[test]
    fn challenges_end_with_their_credential() {
        let cell = CredentialCell::new();
        cell.note_challenges(vec![Challenge::default(); 20]);
        assert_eq!(cell.challenges().len(), MAX_CHALLENGES);
        cell.store(&Credential::bearer(&Secret::new("one"))).unwrap();
        assert!(cell.challenges().is_empty());
    }

    #[test]
    fn only_an_expired_credential_is_awaited_again() {
        let (cell, now) = (CredentialCell::new(), SystemTime::UNIX_EPOCH);
        let second = std::time::Duration::from_secs(1);
        cell.expect_next_if_expired(now);
        assert!(!cell.is_awaited(), "there is none");
        cell.store(&Credential::bearer(&Secret::new("one")).expires_at(Some(now + second))).unwrap();
        cell.expect_next_if_expired(now);
        assert!(!cell.is_awaited());
        cell.expect_next_if_expired(now + second);
        assert!(cell.is_awaited() && cell.headers().is_some());
    }

    #[test]
    fn first_read_is_awaited_until_it_is_over() {
        let cell = CredentialCell::new();
        let cx = Context::from_waker(Waker::noop());
        assert!(cell.poll_read(&cx).is_ready(), "no source");
        cell.expect_first();
        assert!(cell.poll_read(&cx).is_pending());
        cell.was_read();
        assert!(cell.poll_read(&cx).is_ready() && !cell.is_awaited());
    }
}
