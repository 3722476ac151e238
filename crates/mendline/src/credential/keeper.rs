//! The keeper of one server's credential: a task around its source.
//!
//! It reads the source at the start, after a refusal, when the source has changed, and before the credential expires
//! (`schedule`). A new credential is learnt by the redactor, stored in the cell and reported to the engine, in this
//! order. A renewal that the engine has requested is answered once by a new credential or a failure; if the failure can
//! pass, the keeper tries again until it has a new credential.
//!
//! A source that hangs or panics gives a failure that can pass, and nothing else stops.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use mendline_core::port::Challenge;
use mendline_core::reason::CredentialError;
use mendline_core::{Input, Quote as _, UpstreamId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::schedule::{LONGEST_WAIT, Schedule};
use super::{Credential, CredentialCell, CredentialSource, Occasion, SourceFuture};
use crate::builder::NextSource;
use crate::input_queue::InputQueue;
use crate::observe::redact::Redactor;

/// The time limit of one read.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// The least time between two reads because of a change: a source that reports changes without end must not busy us.
const CHANGE_INTERVAL: Duration = Duration::from_millis(250);
/// The time for which fruitless requests are collected before the source learns of them; longer than the interval at
/// which sources look for changes.
const COUNT_DELAY: Duration = Duration::from_secs(10);
/// The limit of a source's text in a reason, in bytes.
const MAX_TEXT_BYTES: usize = 512;

/// The driver's side of a keeper. The keeper ends when it is dropped.
pub(crate) struct KeeperHandle {
    shared: Arc<Shared>,
    next_source: NextSource,
}

/// The state that the driver and the task share.
struct Shared {
    cell: Arc<CredentialCell>,
    requests: Mutex<Requests>,
    notify: Notify,
}

/// The requests of the driver that the task has not taken yet.
#[derive(Default)]
struct Requests {
    /// The credential with this number was refused.
    renew: Option<Renewal>,
    /// The network or the clock has changed.
    check: bool,
    /// The source is replaced, or removed.
    source: Option<Option<Box<dyn CredentialSource>>>,
    is_over: bool,
}

/// A renewal that the engine has requested.
#[derive(Clone, Debug)]
struct Renewal {
    refused: u32,
    challenge: Challenge,
    /// The failure that the engine knows.
    reported: Option<CredentialError>,
}

impl KeeperHandle {
    /// Returns the cell with the credential.
    pub(crate) fn cell(&self) -> Arc<CredentialCell> {
        Arc::clone(&self.shared.cell)
    }

    /// Requests a newer credential than the one with this number.
    pub(crate) fn renew(&self, refused: u32, challenge: Challenge) {
        self.shared.lock().renew = Some(Renewal { refused, challenge, reported: None });
        self.shared.notify.notify_one();
    }

    /// Compares the times with the clock, and ends a backoff. Exchanges wait for the successor of a credential that has
    /// expired meanwhile.
    pub(crate) fn check_again(&self, now: SystemTime) {
        self.shared.cell.expect_next_if_expired(now);
        self.shared.lock().check = true;
        self.shared.notify.notify_one();
    }

    /// Replaces the source, if there is a next one. The credential of the former one is not used any more.
    pub(crate) fn replace_source(&self) {
        let Some(source) = self.next_source.take() else { return };
        match &source {
            Some(_) => self.shared.cell.expect_first(),
            None => self.shared.cell.withdraw(),
        }
        self.shared.lock().source = Some(source);
        self.shared.notify.notify_one();
    }
}

impl Drop for KeeperHandle {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.notify.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of a keeper.
pub(crate) struct Keeper {
    upstream: UpstreamId,
    shared: Arc<Shared>,
    redactor: Redactor,
    inputs: Arc<InputQueue>,
    wall_clock: Box<dyn Fn() -> SystemTime + Send>,
    source: Option<Box<dyn CredentialSource>>,
    /// The credential in the cell.
    current: Option<Credential>,
    schedule: Schedule,
    renewal: Option<Renewal>,
    /// The source is not asked for changes before this time.
    changes_from: Instant,
    /// The reason why the server refuses all requests, as the engine knows it.
    refused: Option<CredentialError>,
    /// Refused requests that the source does not know of yet.
    fruitless: u32,
}

/// The cause of the next step of a keeper.
enum Cause {
    Request,
    Changed,
    Due,
    /// Requests were refused while there is no newer credential.
    Counted,
}

impl Keeper {
    /// Starts a keeper as a task. Without a source it waits for one.
    pub(crate) fn start(
        upstream: UpstreamId,
        source: Option<Box<dyn CredentialSource>>,
        next_source: NextSource,
        redactor: Redactor,
        inputs: Arc<InputQueue>,
    ) -> KeeperHandle {
        let (keeper, handle) = Keeper::new(upstream, source, next_source, redactor, inputs);
        tokio::spawn(keeper.run());
        handle
    }

    fn new(
        upstream: UpstreamId,
        source: Option<Box<dyn CredentialSource>>,
        next_source: NextSource,
        redactor: Redactor,
        inputs: Arc<InputQueue>,
    ) -> (Keeper, KeeperHandle) {
        let cell = Arc::new(CredentialCell::new());
        if source.is_some() {
            cell.expect_first();
        }
        let shared = Arc::new(Shared { cell, requests: Mutex::default(), notify: Notify::new() });
        let keeper = Keeper {
            upstream,
            shared: Arc::clone(&shared),
            redactor,
            inputs,
            wall_clock: Box::new(SystemTime::now),
            source,
            current: None,
            schedule: Schedule::default(),
            renewal: None,
            changes_from: Instant::now(),
            refused: None,
            fruitless: 0,
        };
        (keeper, KeeperHandle { shared, next_source })
    }

    async fn run(mut self) {
        self.read_first().await;
        loop {
            match self.next_cause().await {
                Cause::Request => {
                    if !self.take_requests().await {
                        return;
                    }
                }
                Cause::Changed => {
                    self.changes_from = Instant::now() + CHANGE_INTERVAL;
                    self.read(Occasion::Changed).await;
                }
                Cause::Due => {
                    let due = self.schedule.next_read((self.wall_clock)(), self.renewal.is_some());
                    if due.is_some_and(|wait| wait.is_zero()) {
                        self.read(Occasion::Expiring).await;
                    }
                }
                Cause::Counted => {}
            }
            self.note_fruitless().await;
        }
    }

    /// Tells the source of requests that were in vain.
    async fn note_fruitless(&mut self) {
        let count = std::mem::take(&mut self.fruitless);
        if let Some(source) = self.source.as_mut().filter(|_| count > 0) {
            let _ = timeout(READ_LIMIT, catch(|| source.note_fruitless(count))).await;
        }
    }

    async fn read_first(&mut self) {
        if self.source.is_some() {
            self.read(Occasion::Start).await;
        }
        self.shared.cell.was_read();
    }

    /// Waits for a request of the driver, a change of the source, or the time of the next read.
    async fn next_cause(&mut self) -> Cause {
        let due = self.schedule.next_read((self.wall_clock)(), self.renewal.is_some());
        let shared = Arc::clone(&self.shared);
        let has_source = self.source.is_some();
        let is_refused = self.refused.is_some();
        let due = due.map(|wait| Instant::now() + wait.min(LONGEST_WAIT)).filter(|_| has_source);
        let mut counted = None;
        // One future for the whole wait: refusals must not let the source begin its wait anew.
        let mut changed = pin!(changed(&mut self.source, self.changes_from));
        loop {
            tokio::select! {
                biased;
                () = shared.notify.notified() => return Cause::Request,
                () = shared.cell.refusal(), if is_refused => {
                    self.fruitless += shared.cell.take_refusals();
                    counted = counted.or((self.fruitless > 0).then(|| Instant::now() + COUNT_DELAY));
                }
                () = &mut changed => return Cause::Changed,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => return Cause::Due,
                () = sleep_until(counted.unwrap_or_else(Instant::now)), if counted.is_some() => return Cause::Counted,
            }
        }
    }

    /// Handles the requests of the driver. Returns false at the end.
    async fn take_requests(&mut self) -> bool {
        let Requests { renew, check, source, is_over } = std::mem::take(&mut *self.shared.lock());
        if is_over {
            return false;
        }
        if let Some(source) = source {
            self.source = source;
            self.current = None;
            self.schedule = Schedule::default();
            (self.renewal, self.refused) = (None, None);
            self.read_first().await;
        }
        if check {
            self.schedule.end_backoff();
            if self.schedule.next_read((self.wall_clock)(), self.renewal.is_some()).is_some_and(|wait| wait.is_zero()) {
                self.read(Occasion::Expiring).await;
            }
            // A new source that came meanwhile is still awaited.
            if self.shared.lock().source.is_none() {
                self.shared.cell.was_read();
            }
        }
        if let Some(renewal) = renew {
            let number = self.shared.cell.number();
            if renewal.refused < number {
                // There is a newer one already, and the engine may have asked before it knew that.
                self.inputs.push_credential(Input::CredentialChanged { upstream: self.upstream, number });
            } else {
                self.renewal = Some(renewal);
                self.read(Occasion::Expiring).await;
            }
        }
        true
    }

    /// Reads the source and handles the result. A requested renewal is the occasion, whatever the cause is.
    async fn read(&mut self, occasion: Occasion) {
        let occasion = match &self.renewal {
            Some(_) => Occasion::Refused { challenges: self.shared.cell.challenges() },
            None => occasion,
        };
        let Some(source) = &mut self.source else {
            return self.fail(&occasion, CredentialError::Unchanged);
        };
        let read = catch(|| source.read(&occasion));
        let read = timeout(READ_LIMIT, read).await.unwrap_or_else(|_| {
            let why = format!("the source of the credential did not answer within {} s", READ_LIMIT.as_secs());
            Some(Err(CredentialError::Unavailable { why }))
        });
        match read {
            Some(Ok(credential)) => self.handle_credential(&occasion, credential),
            Some(Err(why)) => self.fail(&occasion, why),
            None => {
                let why = "the source of the credential failed; please report this defect".to_owned();
                self.fail(&occasion, CredentialError::Unavailable { why });
            }
        }
    }

    fn handle_credential(&mut self, occasion: &Occasion, read: Option<Credential>) {
        let Some(credential) = read else { return self.handle_none(occasion) };
        let is_same = self.current.as_ref().is_some_and(|current| current.headers == credential.headers);
        if is_same {
            let now = (self.wall_clock)();
            if self.current.as_ref().is_some_and(|current| current.expires_at != credential.expires_at) {
                self.schedule.renewed(now, credential.expires_at, fastrand::f64());
                self.current = Some(credential);
            } else if *occasion == Occasion::Expiring {
                self.schedule.failed(now, fastrand::f64());
            }
            return self.fail_unchanged();
        }
        self.redactor.learn_renewed(credential.headers.iter().map(|(_, value)| value));
        match self.shared.cell.store(&credential) {
            Ok(number) => {
                self.schedule.renewed((self.wall_clock)(), credential.expires_at, fastrand::f64());
                self.current = Some(credential);
                (self.renewal, self.refused) = (None, None);
                self.inputs.push_credential(Input::CredentialChanged { upstream: self.upstream, number });
            }
            Err(fault) => self.fail(occasion, CredentialError::Refused { why: fault.to_string() }),
        }
    }

    /// Handles a source that has no credential, such as a login that was removed.
    fn handle_none(&mut self, occasion: &Occasion) {
        self.schedule = Schedule::default();
        let is_removed = self.current.take().is_some();
        if self.renewal.is_some() {
            self.shared.cell.withdraw();
            self.fail(occasion, CredentialError::NoLogin);
        } else if is_removed {
            let number = self.shared.cell.remove();
            self.refused = None;
            self.inputs.push_credential(Input::CredentialChanged { upstream: self.upstream, number });
        } else {
            self.end_limit(CredentialError::NoLogin);
        }
    }

    /// Tells the engine that the limit of fruitless requests has ended.
    fn end_limit(&mut self, why: CredentialError) {
        if matches!(self.refused, Some(CredentialError::FruitlessLimit { .. })) {
            self.report(why);
        }
    }

    /// Handles a source that gave the refused credential again.
    fn fail_unchanged(&mut self) {
        let Some(renewal) = &self.renewal else { return self.end_limit(CredentialError::Unchanged) };
        let why = match renewal.challenge {
            Challenge::Credential => CredentialError::Unchanged,
            Challenge::Scope => {
                let scopes = self.shared.cell.challenges().into_iter().find_map(|challenge| challenge.scope);
                CredentialError::Scope { scopes: scopes.unwrap_or_default() }
            }
        };
        self.renewal = None;
        self.report(why);
    }

    /// Handles a failed read. If calls wait for a newer credential, the engine is told, once for each reason.
    fn fail(&mut self, occasion: &Occasion, why: CredentialError) {
        let can_pass = why.can_pass();
        if can_pass || *occasion == Occasion::Expiring {
            let now = (self.wall_clock)();
            self.schedule.failed(now, fastrand::f64());
            if let Some(pause) = self.source.as_ref().and_then(|source| source.retry_after()) {
                self.schedule.wait_at_least(now, pause);
            }
        }
        let Some(renewal) = &mut self.renewal else {
            // The reason of the refusal has changed.
            if !can_pass && self.refused.as_ref().is_some_and(|known| *known != why) {
                self.report(why);
            }
            return;
        };
        if !can_pass {
            self.renewal = None;
            return self.report(why);
        }
        if renewal.reported.as_ref() != Some(&why) {
            renewal.reported = Some(why.clone());
            self.report(why);
        }
    }

    fn report(&mut self, mut why: CredentialError) {
        let concerns_all = !why.can_pass() && !matches!(why, CredentialError::Scope { .. });
        if concerns_all {
            let refusals = self.shared.cell.take_refusals();
            // Before that, one renewal answered all refusals together.
            self.fruitless += if self.refused.is_some() { refusals } else { 1 };
            self.refused = Some(why.clone());
        }
        why.texts(&mut |text| *text = self.redactor.quote(text.as_bytes(), MAX_TEXT_BYTES));
        self.inputs.push_credential(Input::CredentialFailed { upstream: self.upstream, why });
    }
}

/// Waits until a source may have changed. Without a source, or after a panic, it waits forever.
async fn changed(source: &mut Option<Box<dyn CredentialSource>>, from: Instant) {
    if let Some(source) = source {
        sleep_until(from).await;
        if catch(|| source.changed()).await.is_some() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Runs a future of a source. Returns `None` if it panics.
async fn catch<'a, T>(begin: impl FnOnce() -> SourceFuture<'a, T>) -> Option<T> {
    let mut future = catch_unwind(AssertUnwindSafe(begin)).ok()?;
    let poll = |future: &mut Pin<Box<dyn Future<Output = T> + Send + 'a>>, cx: &mut Context<'_>| {
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
    };
    poll_fn(|cx| match poll(&mut future, cx) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests;
