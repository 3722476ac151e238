//! Counters over all processes of this user: fruitless requests, and browsers that were opened.
//!
//! A server that refuses every request is asked at most 300 times a day, whatever the number of processes. A browser is
//! opened without a command of the person at most once in ten minutes for each server. After a login that succeeded it is
//! opened again for a new demand of the server: more scopes, or another authorization server. A pause that a token
//! endpoint asks for (`Retry-After`) holds for all processes.
//!
//! A token endpoint that fails (5xx, time-outs, 429) must not use up the limit, because a refusal for the rest of the day
//! would end what can pass. So after [`FREE_FAILURES`] the requests of all processes are spaced: the rest of the day is
//! divided by the rest of the limit.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::record::seconds;
use super::{Contents, Key, Store};
use crate::error::OAuthError;

/// The most fruitless requests to one origin on one day.
pub const MAX_FRUITLESS: u32 = 300;

/// The fruitless requests to one origin on one day after which failures are followed by a pause.
pub(crate) const FREE_FAILURES: u32 = 60;

const DAY: u64 = 24 * 60 * 60;

/// The time between two browsers for one server.
pub(crate) const COOL_DOWN: Duration = Duration::from_secs(600);

/// The most browsers for one server within the cool-down, even if each login succeeds.
const MAX_OPENED: usize = 4;

/// The longest pause that an origin may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The most origins and servers in the file.
const MAX_ENTRIES: usize = 1000;

const NAME: &str = "counters.json";
const LOCK: &str = "counters.lock";
const LOCK_WITHIN: Duration = Duration::from_secs(2);

/// The reason why a browser is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// There is no valid login.
    Login,
    /// The server demands something that the last login could not have: more scopes, another authorization server.
    New,
}

#[derive(Default, Serialize, Deserialize)]
struct Counters {
    /// The day of the counts, in days since 1970.
    #[serde(default)]
    day: u64,
    /// Fruitless requests by origin.
    #[serde(default)]
    fruitless: BTreeMap<String, u32>,
    /// The pauses of origins.
    #[serde(default)]
    paused: BTreeMap<String, Pause>,
    /// Opened browsers by login.
    #[serde(default)]
    opened: BTreeMap<String, Opened>,
}

/// A pause. Its begin shows whether the clock was set back since: then the pause is over.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Pause {
    /// In seconds since 1970.
    begin: u64,
    /// In seconds.
    length: u64,
}

impl Pause {
    fn left(self, now: u64) -> Option<Duration> {
        let passed = now.checked_sub(self.begin)?;
        self.length.min(MAX_PAUSE.as_secs()).checked_sub(passed).filter(|left| *left > 0).map(Duration::from_secs)
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Opened {
    /// The times of the last ones, in seconds since 1970.
    at: Vec<u64>,
    /// Whether the last login succeeded.
    succeeded: bool,
}

impl Contents for Counters {}

impl Counters {
    /// Forgets the counts of another day.
    fn at_day(mut self, now: SystemTime) -> Counters {
        let day = seconds(now) / DAY;
        if self.day != day {
            self.day = day;
            self.fruitless.clear();
        }
        self
    }
}

impl Store {
    /// Returns the number of fruitless requests to an origin today, over all processes.
    pub fn fruitless_today(&self, origin: &str) -> u32 {
        self.fruitless_at(origin, SystemTime::now())
    }

    /// Returns the number of fruitless requests to an origin on the day of this time.
    pub(crate) fn fruitless_at(&self, origin: &str, now: SystemTime) -> u32 {
        self.counters(now).fruitless.get(origin).copied().unwrap_or_default()
    }

    /// Fails if too many requests to this origin were fruitless today.
    pub(crate) fn check_ceiling(&self, origin: &str, now: SystemTime) -> Result<(), OAuthError> {
        match self.counters(now).fruitless.get(origin) {
            Some(&count) if count >= MAX_FRUITLESS => Err(OAuthError::Ceiling { origin: origin.to_owned(), count }),
            _ => Ok(()),
        }
    }

    /// Counts fruitless requests. Failures of the file are ignored: it protects the server, not the login.
    pub(crate) async fn count_fruitless(&self, origin: &str, count: u32, now: SystemTime) {
        let origin = origin.to_owned();
        self.change(now, move |counters| {
            if counters.fruitless.len() < MAX_ENTRIES || counters.fruitless.contains_key(&origin) {
                let counted = counters.fruitless.entry(origin).or_default();
                *counted = counted.saturating_add(count);
            }
        })
        .await;
    }

    /// Counts a request that failed. Returns the pause before the next one, for all processes.
    pub(crate) async fn count_failure(&self, origin: &str, now: SystemTime) -> Option<Duration> {
        self.count_fruitless(origin, 1, now).await;
        let pause = spacing(self.fruitless_at(origin, now), now)?;
        self.set_pause(origin, pause, now).await;
        Some(pause)
    }

    /// Returns the rest of the pause of an origin, over all processes.
    pub(crate) fn pause(&self, origin: &str, now: SystemTime) -> Option<Duration> {
        self.counters(now).paused.get(origin)?.left(seconds(now))
    }

    /// Keeps a pause: the origin asked for it (`Retry-After`), or it fails too often. A longer one stays.
    pub(crate) async fn set_pause(&self, origin: &str, pause: Duration, now: SystemTime) {
        let (origin, begin) = (origin.to_owned(), seconds(now));
        let pause = Pause { begin, length: pause.min(MAX_PAUSE).as_secs() };
        self.change(now, move |counters| {
            counters.paused.retain(|_, old| old.left(begin).is_some());
            let is_longer = counters.paused.get(&origin).is_none_or(|old| old.left(begin) < pause.left(begin));
            if counters.paused.len() < MAX_ENTRIES && is_longer {
                counters.paused.insert(origin, pause);
            }
        })
        .await;
    }

    /// Forgets the fruitless requests to an origin after a login that succeeded.
    pub(crate) async fn forgive(&self, origin: &str, now: SystemTime) {
        if self.counters(now).fruitless.contains_key(origin) {
            let origin = origin.to_owned();
            self.change(now, move |counters| {
                counters.fruitless.remove(&origin);
            })
            .await;
        }
    }

    /// Returns whether a browser may be opened for this login now, and counts it.
    pub(crate) async fn may_open_browser(&self, key: &Key, demand: Demand, now: SystemTime) -> bool {
        let (name, at) = (key.0.clone(), seconds(now));
        let answer = self
            .change(now, move |counters| {
                // Logins whose last browser is long ago need no entry.
                counters.opened.retain(|it, opened| *it == name || opened.at.iter().any(|time| is_recent(*time, at)));
                let opened = counters.opened.entry(name).or_default();
                opened.at.retain(|time| is_recent(*time, at));
                let may =
                    opened.at.is_empty() || (demand == Demand::New && opened.succeeded && opened.at.len() < MAX_OPENED);
                if may {
                    opened.at.push(at);
                    opened.succeeded = false;
                }
                may
            })
            .await;
        answer.unwrap_or(false)
    }

    /// Records that a login succeeded.
    pub(crate) async fn login_succeeded(&self, key: &Key, now: SystemTime) {
        let name = key.0.clone();
        self.change(now, move |counters| {
            if let Some(opened) = counters.opened.get_mut(&name) {
                opened.succeeded = true;
            }
        })
        .await;
    }

    fn counters(&self, now: SystemTime) -> Counters {
        self.read_or_set_aside::<Counters>(NAME).ok().flatten().unwrap_or_default().at_day(now)
    }

    async fn change<T>(&self, now: SystemTime, change: impl FnOnce(&mut Counters) -> T) -> Option<T> {
        let _lock = self.wait_for_lock(LOCK, LOCK_WITHIN).await.ok()?;
        let mut counters = self.counters(now);
        let answer = change(&mut counters);
        self.write(NAME.to_owned(), &counters, None).await.ok()?;
        Some(answer)
    }
}

/// Returns the pause after a failure: the rest of the day, divided by the rest of the limit. `None` if there were few.
fn spacing(count: u32, now: SystemTime) -> Option<Duration> {
    let left = DAY - seconds(now) % DAY;
    let pause = left.div_ceil(u64::from(MAX_FRUITLESS.saturating_sub(count).max(1)));
    (count > FREE_FAILURES).then(|| Duration::from_secs(pause))
}

/// Returns whether a time is within the cool-down. A time in the future is of a clock that was set back.
fn is_recent(time: u64, now: u64) -> bool {
    time <= now && now - time < COOL_DOWN.as_secs()
}
