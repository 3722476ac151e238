//! The rules in numbers: small machines that are told the time and decide one thing each.
//!
//! # The way of a call past them
//!
//! ```text
//!   request
//!      │
//!   accept ──── stopping, isolated manually, parked ─────────────► answered at once
//!      │
//!   breaker ─── the server's or the tool's is open ─────────────► answered at once: when it is tried again
//!      │            half open: one call is the trial
//!   pause,  ─── its turn comes after its time ──────────────────► answered at once: when to come back
//!   rate limit
//!      │
//!   queue ───── full ───────────────────────────────────────────► answered at once: overloaded
//!      │            waits for the link, the pause, its turn, a place; clients take turns
//!      │        deadline or patience over ──────────────────────► answered: not sent
//!      │
//!   a place among those in flight
//!      │
//!   attempt ◄──────────────────────────────────────────┐
//!      │                                               │ after its backoff, through the queue
//!   evidence → outcome                                 │
//!      ├─► breakers: well, failed, broke; or nothing   │
//!      ├─► pause: 429 or 503 with Retry-After          │
//!      │                                               │
//!   retry: may it be sent again? ── yes ── budget ─────┘
//!      │ no                                │ spent
//!      ▼                                   ▼
//!   answer, or what became of it and what to do
//! ```
//!
//! The order is by cost and by truth: what can be said without waiting is said first, the breaker comes before the queue so
//! that nobody queues for a server that is sick, and the limit comes last so that only what really goes out uses it up.
//!
//! - [`breaker`], [`window`], [`tool_breakers`]: is it sick? [`pause`]: is it busy? [`limit`]: how much in what time?
//! - [`queue`]: whose turn is it? [`deadline`]: how long may it take?
//! - [`retry`], [`effect`]: may it be sent again? [`budget`]: is that affordable? [`backoff`]: when?

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod deadline;
pub mod effect;
pub mod limit;
pub mod pause;
pub mod queue;
pub mod retry;
pub mod tool_breakers;
pub mod window;
