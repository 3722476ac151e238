//! A source whose server gets a limited number of requests without a valid credential.
//!
//! Requests with a refused credential are fruitless. They are counted for each origin and day, over all processes. At
//! the limit the source says so, and the engine sends no more probes until there is another credential, or the next day
//! begins.

use std::time::Duration;

use mendline::credential::{Credential, CredentialSource, Occasion, SourceFuture};
use mendline::decisions::reason::CredentialError;
use tokio::time::sleep;

use crate::store::Store;
use crate::store::counters::MAX_FRUITLESS;
use crate::url::Parts;
use crate::{Clock, system_clock};

/// The interval at which the counts of other processes are looked at while the server refuses the credential.
const POLL: Duration = Duration::from_secs(5);

/// A source with a limit of fruitless requests.
pub struct LimitedSource {
    inner: Box<dyn CredentialSource>,
    store: Store,
    origin: String,
    clock: Clock,
    /// The credential that was given last.
    last: Option<Credential>,
    /// The server refuses it.
    is_refused: bool,
    /// The limit was reached at the last read.
    was_limited: bool,
}

impl LimitedSource {
    /// Limits the requests to a server at this URL.
    pub fn new(inner: Box<dyn CredentialSource>, store: Store, server: &str) -> LimitedSource {
        let origin = Parts::of(server).map_or(server, |parts| parts.origin).to_owned();
        let (last, clock) = (None, system_clock());
        LimitedSource { inner, store, origin, clock, last, is_refused: false, was_limited: false }
    }

    fn count(&self) -> u32 {
        self.store.fruitless_at(&self.origin, (self.clock)())
    }

    async fn read_limited(&mut self, occasion: &Occasion) -> Result<Option<Credential>, CredentialError> {
        let result = self.inner.read(occasion).await;
        let is_fruitless = match &result {
            Ok(Some(credential)) => self.last.as_ref().is_some_and(|last| last.headers == credential.headers),
            Ok(None) => true,
            Err(why) => !why.can_pass() && *why != CredentialError::LoginPending,
        };
        if let Ok(Some(credential)) = &result {
            self.last = Some(credential.clone());
        }
        self.is_refused &= is_fruitless;
        let count = self.count();
        self.was_limited = self.is_refused && count >= MAX_FRUITLESS;
        if self.was_limited { Err(CredentialError::FruitlessLimit { count }) } else { result }
    }
}

impl CredentialSource for LimitedSource {
    fn read<'a>(&'a mut self, occasion: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        Box::pin(self.read_limited(occasion))
    }

    fn retry_after(&self) -> Option<Duration> {
        self.inner.retry_after()
    }

    fn note_fruitless(&mut self, count: u32) -> SourceFuture<'_, ()> {
        self.is_refused = true;
        Box::pin(async move { self.store.count_fruitless(&self.origin, count, (self.clock)()).await })
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        let LimitedSource { inner, store, origin, clock, is_refused, was_limited, .. } = self;
        Box::pin(async move {
            // One future for the whole wait: a source that looks for changes rarely must not begin anew each time.
            let mut changed = inner.changed();
            loop {
                tokio::select! {
                    () = &mut changed => return,
                    () = sleep(POLL), if *is_refused => {}
                }
                let is_limited = store.fruitless_at(origin, clock()) >= MAX_FRUITLESS;
                if *is_refused && is_limited != *was_limited {
                    return;
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::SystemTime;

    use mendline::decisions::Secret;

    use super::*;
    use crate::testing::block_on;

    /// A source that always has the same credential.
    struct Same;

    impl CredentialSource for Same {
        fn read<'a>(&'a mut self, _: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
            Box::pin(async { Ok(Some(Credential::bearer(&Secret::new("same")))) })
        }

        fn changed(&mut self) -> SourceFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn limit_holds_over_processes_until_the_next_day() {
        let folder = tempfile::tempdir().unwrap();
        let day = Arc::new(AtomicU64::new(20_000));
        let source = || {
            let day = Arc::clone(&day);
            let now = move || SystemTime::UNIX_EPOCH + Duration::from_secs(day.load(Ordering::SeqCst) * 86_400);
            let source = LimitedSource::new(Box::new(Same), Store::new(folder.path()), "https://mcp.example/x");
            LimitedSource { clock: Arc::new(now), ..source }
        };
        let (mut one, mut other) = (source(), source());
        block_on(async {
            for source in [&mut one, &mut other] {
                assert!(source.read(&Occasion::Start).await.is_ok());
                source.note_fruitless(1).await;
            }
            one.note_fruitless(MAX_FRUITLESS - 3).await;
            assert!(one.read(&Occasion::Changed).await.is_ok(), "one more is allowed");
            one.note_fruitless(1).await;
            other.changed().await;
            let limit = CredentialError::FruitlessLimit { count: MAX_FRUITLESS };
            assert_eq!(other.read(&Occasion::Changed).await, Err(limit));
            day.fetch_add(1, Ordering::SeqCst);
            other.changed().await;
            assert!(other.read(&Occasion::Changed).await.is_ok());
        });
    }

    /// A source that looks for changes rarely.
    struct Slow;

    impl CredentialSource for Slow {
        fn read<'a>(&'a mut self, _: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
            Box::pin(async { Err(CredentialError::NoLogin) })
        }

        fn changed(&mut self) -> SourceFuture<'_, ()> {
            Box::pin(sleep(POLL * 3))
        }
    }

    #[test]
    fn change_is_noticed_while_the_server_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = LimitedSource::new(Box::new(Slow), Store::new(folder.path()), "https://mcp.example/x");
        block_on(async {
            source.note_fruitless(1).await;
            tokio::time::timeout(POLL * 4, source.changed()).await.expect("a change of the source");
        });
    }

    #[test]
    fn new_credential_is_given_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = LimitedSource::new(Box::new(Same), Store::new(folder.path()), "https://mcp.example/x");
        block_on(async {
            source.note_fruitless(MAX_FRUITLESS).await;
            assert!(source.read(&Occasion::Changed).await.is_ok(), "it was never given before");
        });
    }
}
