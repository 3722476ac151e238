//! Policies: small state machines, each with one decision. They receive the time as an argument.
//!
//! # The path of a call
//!
//! ```text
//!   request
//!      │
//!   accept ──── stopping, isolated, parked ─────────────────────► failed at once
//!      │
//!   breaker ─── the tool's is open, or isolated ────────────────► failed at once, with a retry hint
//!      │            half open: one call is the trial
//!   pause,  ─── its slot comes after its deadline ──────────────► failed at once, with a retry hint
//!   rate limit
//!      │
//!   queue ───── full ───────────────────────────────────────────► failed at once: overloaded
//!      │            waits for the link, the pause, the rate limit, a slot
//!      │        deadline or patience over ──────────────────────► failed: not sent
//!      │
//!   a slot in flight
//!      │
//!   attempt ◄──────────────────────────────────────────┐
//!      │                                               │ after its backoff, through the queue
//!   evidence → outcome                                 │
//!      ├─► breakers: healthy, failed, broke, or none   │
//!      ├─► pause: 429 or 503 with Retry-After          │
//!      │                                               │
//!   retry table: sent again? ────── yes ── budget ─────┘
//!      │ no                                │ spent
//!      ▼                                   ▼
//!   the server's answer, or a failure with its outcome and next step
//! ```
//!
//! Decisions without a wait come first. The breaker comes before the queue, so that no call waits for an unhealthy server.
//! The rate limit comes last, so that only sent calls use it up.
//!
//! - [`breaker`], [`window`], [`tool_breakers`]: the health of servers and tools.
//! - [`pause`], [`gradual`]: overloaded servers. [`limit`]: the rate limit. [`tool_limits`]: the limits
//!   of single tools.
//! - [`tool_filter`]: the tools that a client may use.
//! - [`queue`]: fairness between clients. [`deadline`]: timeouts of tools.
//! - [`retry`], [`effect`]: whether a call is sent again. [`rule`]: the names of these decisions. [`budget`]: the retry
//!   budget. [`backoff`]: the wait.

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod deadline;
pub mod effect;
pub mod gradual;
pub mod limit;
pub mod pause;
pub mod queue;
pub mod retry;
pub mod rule;
pub mod tool_breakers;
pub mod tool_filter;
pub mod tool_limits;
pub mod window;
