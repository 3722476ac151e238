//! The credential that a transport adds to its requests.
//!
//! It is that of the server's [`CredentialCell`] at the time of the last [`Authorization::adopt`]. The first exchanges
//! wait a moment for a source that is being read for the first time, so that no request is sent without a credential
//! only to be refused. The wait is short: a slow source must not look like a slow server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderMap};
use tokio::time::Sleep;

use super::Challenge;
use crate::credential::{CredentialCell, CredentialHeaders};

/// The longest wait for a credential that is about to be read. Most helpers answer within a second.
const FIRST_WAIT: Duration = Duration::from_secs(3);

/// The credential of one transport, if its server has a source of credentials.
#[derive(Default)]
pub(super) struct Authorization {
    cell: Option<Arc<CredentialCell>>,
    current: Option<Arc<CredentialHeaders>>,
    /// The end of the wait for the credential.
    wait: Option<Pin<Box<Sleep>>>,
}

impl Authorization {
    pub(super) fn new(cell: Arc<CredentialCell>) -> Authorization {
        let wait = cell.is_awaited().then(|| Box::pin(tokio::time::sleep(FIRST_WAIT)));
        Authorization { current: cell.headers(), cell: Some(cell), wait }
    }

    /// Uses the latest credential of the cell from now on.
    pub(super) fn adopt(&mut self) {
        if let Some(cell) = &self.cell {
            self.current = cell.headers();
            self.wait = None;
        }
    }

    /// Waits a moment if the source is about to be read: the credential has expired while the machine slept.
    pub(super) fn await_next(&mut self) {
        if self.cell.as_ref().is_some_and(|cell| cell.is_awaited()) && self.wait.is_none() {
            self.wait = Some(Box::pin(tokio::time::sleep(FIRST_WAIT)));
        }
    }

    /// Returns whether exchanges wait for the credential.
    pub(super) fn is_awaited(&self) -> bool {
        self.wait.is_some()
    }

    /// Returns true when the wait has ended.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> bool {
        let (Some(cell), Some(wait)) = (&self.cell, &mut self.wait) else { return false };
        let is_over = cell.poll_read(cx).is_ready() || wait.as_mut().poll(cx) == Poll::Ready(());
        if is_over {
            self.adopt();
        }
        is_over
    }

    /// The headers to send.
    pub(super) fn headers(&self) -> Option<&CredentialHeaders> {
        self.current.as_deref()
    }

    /// Keeps the challenges of a response that refuses the credential.
    pub(super) fn note_refusal(&self, headers: &HeaderMap) {
        let Some(cell) = &self.cell else { return };
        let values = headers.get_all(header::WWW_AUTHENTICATE).into_iter();
        let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        cell.note_challenges(texts.flat_map(|text| Challenge::parse(&text)).collect());
    }
}
