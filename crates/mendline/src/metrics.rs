//! Metrics of running processes, for Prometheus and everything that reads its format.
//!
//! The counts are a fold of the events ([`mendline_core::Metrics`]), which the status store of a process keeps beside its
//! status. A [`Sample`] is one of them with its labels; [`families`] lists all of them with their help. [`text`] writes
//! the samples of one process, or of several, in the OpenMetrics text format, and [`endpoint`] answers requests for it.
//!
//! Labels hold names of servers, methods, tools, states and reasons. Their number is bounded, and none of them is an id,
//! an argument or a text of a server; names of tools are redacted.

pub mod endpoint;
pub mod families;
mod sample;
pub mod text;

pub use sample::{Buckets, Sample, Value};
pub(crate) use sample::{ServerMetrics, of_process, of_server};
