//! The limits of principals: the rate of their requests, and the requests in flight.
//!
//! A principal is the owner of a token, or the local user. A client that loops reaches the limits of its principal and
//! is answered at once; the requests of others are not affected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mendline_core::config::{CredentialKind, FailureForm, RateLimit};
use mendline_core::policy::limit::Limit;
use mendline_core::reason::RefusalReason;
use mendline_core::words::{Cause, Failure};
use mendline_core::{Moment, Outcome, RequestRefusal};

use super::token::PrincipalLimits;

/// The hint for a client with too many requests in flight. Its own answers make room.
const RETRY_IN_FLIGHT: Duration = Duration::from_secs(1);

/// The use of the gateway by all principals.
#[derive(Debug)]
pub(super) struct Principals {
    usages: Mutex<HashMap<Arc<str>, Arc<Usage>>>,
    begin: Instant,
}

#[derive(Debug)]
struct Usage {
    rate: Mutex<Rate>,
    in_flight: AtomicU32,
}

/// The rate of a principal. Another configuration begins anew.
#[derive(Debug)]
struct Rate {
    configured: Option<RateLimit>,
    limit: Option<Limit>,
}

impl Rate {
    fn new(configured: Option<RateLimit>) -> Rate {
        Rate { configured, limit: configured.map(Limit::new) }
    }
}

/// A request in flight. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Permit {
    usage: Arc<Usage>,
    requests: u32,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.usage.in_flight.fetch_sub(self.requests, Ordering::Relaxed);
    }
}

/// A request that is above a limit of its principal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rejected {
    cause: Cause,
    why: RefusalReason,
    /// The time after which it may be accepted.
    pub(super) retry_after: Duration,
}

impl Rejected {
    /// The refusal as the engine reports it.
    pub(super) fn refusal(&self) -> RequestRefusal {
        RequestRefusal::Limit(self.why.clone())
    }

    /// The failure of the request.
    pub(super) fn failure(&self, server: &str, what: String, modern: bool) -> Failure {
        Failure {
            call: None,
            cause: self.cause,
            outcome: Outcome::NotSent,
            retryable: true,
            attempts: 0,
            retry_after: Some(self.retry_after),
            upstream: server.to_owned(),
            what,
            why: self.why.clone().into(),
            needs_person: false,
            credential: CredentialKind::Fixed,
            modern,
            form: FailureForm::Result,
        }
    }
}

impl Principals {
    /// Creates the table.
    pub(super) fn new() -> Principals {
        Principals { usages: Mutex::default(), begin: Instant::now() }
    }

    /// Accepts requests of a principal, or rejects them.
    pub(super) fn admit(
        &self,
        principal: &Arc<str>,
        limits: PrincipalLimits,
        requests: u32,
        now: Instant,
    ) -> Result<Permit, Rejected> {
        let usage = Arc::clone(lock(&self.usages).entry(Arc::clone(principal)).or_insert_with(|| {
            let rate = Mutex::new(Rate::new(limits.rate));
            Arc::new(Usage { rate, in_flight: AtomicU32::new(0) })
        }));
        let before = usage.in_flight.fetch_add(requests, Ordering::Relaxed);
        // Made before the checks: a rejection gives the place back.
        let permit = Permit { usage, requests };
        if before.saturating_add(requests) > limits.in_flight {
            let why = RefusalReason::PrincipalInFlight { limit: limits.in_flight as usize };
            return Err(Rejected { cause: Cause::Overloaded, why, retry_after: RETRY_IN_FLIGHT });
        }
        permit.usage.take_rate(limits.rate, requests, self.moment(now))?;
        Ok(permit)
    }

    fn moment(&self, now: Instant) -> Moment {
        Moment::ZERO + now.saturating_duration_since(self.begin)
    }
}

impl Usage {
    fn take_rate(&self, configured: Option<RateLimit>, requests: u32, now: Moment) -> Result<(), Rejected> {
        let mut rate = lock(&self.rate);
        if rate.configured != configured {
            *rate = Rate::new(configured);
        }
        let Some(limit) = &mut rate.limit else { return Ok(()) };
        for _ in 0..requests {
            if !limit.try_take(now) {
                let retry_after = limit.slot_after(0, now).since(now);
                return Err(Rejected { cause: Cause::RateLimited, why: limit.reason(), retry_after });
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(in_flight: u32, rate: Option<RateLimit>) -> PrincipalLimits {
        PrincipalLimits { rate, in_flight }
    }

    #[test]
    fn limit_of_one_principal_does_not_concern_another() {
        let (principals, now) = (Principals::new(), Instant::now());
        let (ann, bob): (Arc<str>, Arc<str>) = (Arc::from("ann"), Arc::from("bob"));
        let two = limits(2, None);
        let (first, _second) =
            (principals.admit(&ann, two, 1, now).unwrap(), principals.admit(&ann, two, 1, now).unwrap());
        let rejected = principals.admit(&ann, two, 1, now).unwrap_err();
        assert_eq!((rejected.cause, rejected.retry_after), (Cause::Overloaded, RETRY_IN_FLIGHT));
        assert!(principals.admit(&bob, two, 2, now).is_ok());
        drop(first);
        assert!(principals.admit(&ann, two, 1, now).is_ok(), "an answer makes room");
        assert!(principals.admit(&ann, two, 2, now).is_err(), "two do not fit");
        assert!(principals.admit(&ann, limits(3, None), 2, now).is_ok(), "the limit was raised");
    }

    #[test]
    fn rate_limit_tells_when_to_try_again() {
        let principals = Principals::new();
        let (ann, now): (Arc<str>, Instant) = (Arc::from("ann"), principals.begin + Duration::from_secs(5));
        let slow = limits(100, Some(RateLimit { burst: 2, per_second: 0.5 }));
        for _ in 0..2 {
            principals.admit(&ann, slow, 1, now).unwrap();
        }
        let rejected = principals.admit(&ann, slow, 1, now).unwrap_err();
        assert_eq!((rejected.cause, rejected.retry_after), (Cause::RateLimited, Duration::from_secs(2)));
        assert!(principals.admit(&ann, slow, 1, now + rejected.retry_after).is_ok());
        assert_eq!(lock(&principals.usages)[&ann].in_flight.load(Ordering::Relaxed), 0, "no place is lost");
    }
}
