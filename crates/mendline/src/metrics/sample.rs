//! Samples: the values of metrics with their labels, as one process sends them to another.

use std::time::Duration;

use mendline_core::metrics::{BOUNDS, Durations, Named, Operation, OperationMetrics, UpstreamMetrics};
use mendline_core::status::UpstreamStatus;
use serde::{Deserialize, Serialize};

use super::families::{self, Family};
use crate::observe::escaped::Escaped;
use crate::observe::redact::Redactor;

/// The limit of a label's value, in characters.
const LABEL_LENGTH: usize = 200;

/// A value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// The name of its [`Family`].
    pub family: String,
    /// The values of its labels.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

impl Sample {
    /// The name of its server, if it is about one.
    pub fn server(&self) -> Option<&str> {
        let at = families::by_name(&self.family)?.labels.iter().position(|label| *label == "server")?;
        self.labels.get(at).map(String::as_str)
    }
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Value {
    /// A count.
    Count(u64),
    /// A number.
    Number(f64),
    /// Durations.
    Durations(Buckets),
}

/// Durations in buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Buckets {
    /// The sum of all durations, in seconds.
    pub sum: f64,
    /// The number of durations up to each bound and above the one before, and of those above all bounds.
    pub counts: Vec<u64>,
}

impl Buckets {
    /// The upper bounds in seconds.
    pub fn bounds() -> impl Iterator<Item = f64> {
        BOUNDS.iter().map(|millis| Duration::from_millis(*millis).as_secs_f64()).chain([f64::INFINITY])
    }
}

impl From<&Durations> for Buckets {
    fn from(durations: &Durations) -> Buckets {
        Buckets { sum: durations.sum.as_secs_f64(), counts: durations.buckets.to_vec() }
    }
}

/// The samples of a process as a whole.
pub(crate) fn of_process(version: &str, started_at_ms: u64, resident_bytes: Option<u64>) -> Vec<Sample> {
    let mut samples = Collection::default();
    samples.number(&families::BUILD_INFO, &[version], 1.0);
    samples.number(&families::START_TIME, &[], Duration::from_millis(started_at_ms).as_secs_f64());
    if let Some(bytes) = resident_bytes {
        samples.number(&families::MEMORY, &[], bytes as f64);
    }
    samples.0
}

/// What the samples of a server are made from.
pub(crate) struct ServerMetrics<'a> {
    pub(crate) name: &'a str,
    /// The name of its state.
    pub(crate) state: &'a str,
    pub(crate) is_up: bool,
    /// The upstream whose state is that of the server.
    pub(crate) state_of: &'a UpstreamStatus,
    /// The counts of all its upstreams.
    pub(crate) counts: &'a UpstreamStatus,
    pub(crate) metrics: &'a UpstreamMetrics,
}

/// The samples of a server. Its name and those of tools are redacted and escaped.
pub(crate) fn of_server(server: &ServerMetrics<'_>, redactor: &Redactor) -> Vec<Sample> {
    let ServerMetrics { state, is_up, state_of, counts: status, metrics, .. } = *server;
    let name = &*label(server.name, redactor);
    let mut samples = Collection::default();
    samples.number(&families::UP, &[name], f64::from(u8::from(is_up)));
    samples.number(&families::STATE, &[name, state], 1.0);
    for (operation, counts) in &metrics.operations {
        samples.operation(name, operation, counts, redactor);
    }
    samples.number(&families::CALLS_OPEN, &[name], status.open as f64);
    samples.number(&families::CALLS_IN_FLIGHT, &[name], status.out as f64);
    samples.number(&families::CALLS_SILENT, &[name], status.silent.len() as f64);
    samples.count(&families::CANCELLED, &[name], metrics.cancelled);
    samples.count(&families::CONNECTIONS, &[name], metrics.connections);
    samples.named(&families::CONNECTIONS_FAILED, name, &metrics.connections_failed);
    samples.named(&families::LOSSES, name, &metrics.losses);
    samples.count(&families::RESTARTS, &[name], metrics.restarts);
    samples.durations(&families::RECOVERY_DURATION, &[name], &metrics.recoveries);
    samples.named(&families::HANDSHAKES_FAILED, name, &metrics.handshakes_failed);
    samples.named(&families::RETRIES, name, &metrics.retries);
    samples.count(&families::RETRIES_REFUSED, &[name], metrics.retries_refused);
    samples.count(&families::RESUMPTIONS, &[name], metrics.resumptions);
    samples.number(&families::BREAKER_STATE, &[name, "", state_of.breaker.state.name()], 1.0);
    for (tool, breaker) in &state_of.tools {
        samples.number(&families::BREAKER_STATE, &[name, &label(tool, redactor), breaker.state.name()], 1.0);
    }
    samples.named(&families::BREAKER_CHANGES, name, &metrics.breaker_changes);
    samples.count(&families::PAUSES, &[name], metrics.pauses);
    samples.count(&families::RATE_LIMIT_WAITS, &[name], metrics.rate_limited);
    samples.count(&families::CATALOGUE_ANSWERS, &[name], metrics.catalogue_answers);
    samples.count(&families::CREDENTIALS_RENEWED, &[name], metrics.credentials_renewed);
    samples.named(&families::CREDENTIALS_FAILED, name, &metrics.credentials_failed);
    samples.named(&families::DROPPED, name, &metrics.dropped);
    samples.count(&families::LISTS_CHANGED, &[name], metrics.lists_changed);
    samples.count(&families::LIST_CHANGES_HIDDEN, &[name], metrics.list_changes_hidden);
    samples.count(&families::CLIENTS, &[name], metrics.clients_opened);
    samples.0
}

/// A name as the value of a label.
fn label(name: &str, redactor: &Redactor) -> String {
    let escaped = Escaped(&redactor.redact(name.as_bytes())).to_string();
    escaped.chars().take(LABEL_LENGTH).collect()
}

#[derive(Default)]
struct Collection(Vec<Sample>);

impl Collection {
    fn push(&mut self, family: &Family, labels: &[&str], value: Value) {
        debug_assert_eq!(labels.len(), family.labels.len(), "{}", family.name);
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.0.push(Sample { family: family.name.to_owned(), labels, value });
    }

    fn count(&mut self, family: &Family, labels: &[&str], value: u64) {
        self.push(family, labels, Value::Count(value));
    }

    fn number(&mut self, family: &Family, labels: &[&str], value: f64) {
        self.push(family, labels, Value::Number(value));
    }

    fn durations(&mut self, family: &Family, labels: &[&str], durations: &Durations) {
        self.push(family, labels, Value::Durations(Buckets::from(durations)));
    }

    fn named(&mut self, family: &Family, server: &str, counts: &Named) {
        counts.iter().for_each(|(reason, value)| self.count(family, &[server, reason], *value));
    }

    fn operation(&mut self, server: &str, operation: &Operation, counts: &OperationMetrics, redactor: &Redactor) {
        let method = operation.method.name().unwrap_or("other");
        let tool = operation.tool.as_ref().map_or_else(String::new, |tool| label(tool.as_str(), redactor));
        let calls = |samples: &mut Collection, outcome: &str, reason: &str, value: u64| {
            if value > 0 {
                samples.count(&families::CALLS, &[server, method, &tool, outcome, reason], value);
            }
        };
        calls(self, "ok", "", counts.ok);
        calls(self, "tool_error", "", counts.tool_errors);
        for (code, value) in &counts.errors {
            let code = if *code == 0 { "other".to_owned() } else { code.to_string() };
            calls(self, "error", &code, *value);
        }
        for (outcome, reasons) in
            [("failed", &counts.failed), ("unknown", &counts.unknown), ("rejected", &counts.rejected)]
        {
            reasons.iter().for_each(|(reason, value)| calls(self, outcome, reason, *value));
        }
        self.durations(&families::REQUEST_DURATION, &[server, method, &tool], &counts.request_took);
        self.durations(&families::ATTEMPT_DURATION, &[server, method, &tool], &counts.attempt_took);
    }
}
