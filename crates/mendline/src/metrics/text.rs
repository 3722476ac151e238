//! The OpenMetrics text format.
//!
//! The samples of a metric must stand together, also if they come from several processes; then each has a label with its
//! process. Samples of unknown metrics, which a newer process may send, are left out.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::families::{self, Family, Kind};
use super::sample::{Buckets, Sample, Value};
use crate::control::store::{SharedStatus, lock};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The samples of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSamples {
    /// The value of the label `process`, if there are several processes.
    pub process: Option<String>,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// Returns the metrics of this process as text.
pub fn of_store(store: &SharedStatus) -> String {
    encode(vec![ProcessSamples { process: None, samples: lock(store).metrics() }])
}

/// Returns the samples as text.
pub fn encode(processes: Vec<ProcessSamples>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collector(processes)));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Collector(Vec<ProcessSamples>);

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in families::ALL {
            let mut samples = self.of(family).peekable();
            if samples.peek().is_some() {
                let (unit, kind) = match family.kind {
                    Kind::Counter => (None, MetricType::Counter),
                    Kind::Gauge => (None, MetricType::Gauge),
                    Kind::Seconds => (Some(Unit::Seconds), MetricType::Histogram),
                };
                let mut metric = encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
                samples.try_for_each(|(process, sample)| write(&mut metric, family, process, sample))?;
            }
        }
        Ok(())
    }
}

impl Collector {
    fn of<'a>(&'a self, family: &'static Family) -> impl Iterator<Item = (Option<&'a str>, &'a Sample)> {
        let is_of = |sample: &&Sample| sample.family == family.name && sample.labels.len() == family.labels.len();
        self.0.iter().flat_map(move |process| {
            process.samples.iter().filter(is_of).map(|sample| (process.process.as_deref(), sample))
        })
    }
}

fn write(metric: &mut MetricEncoder<'_>, family: &Family, process: Option<&str>, sample: &Sample) -> fmt::Result {
    let labels = family.labels.iter().copied().zip(sample.labels.iter().map(String::as_str));
    let labels: Vec<(&str, &str)> = labels.chain(process.map(|process| ("process", process))).collect();
    if labels.is_empty() {
        return write_value(metric, family.kind, &sample.value);
    }
    write_value(&mut metric.encode_family(&labels)?, family.kind, &sample.value)
}

fn write_value(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match (value, kind) {
        (Value::Count(count), Kind::Counter) => metric.encode_counter::<NoLabelSet, u64, u64>(count, None),
        (Value::Number(number), Kind::Gauge) => metric.encode_gauge(number),
        (Value::Durations(durations), Kind::Seconds) => write_durations(metric, durations),
        // Another version of Mendline: its value has another kind.
        _ => Ok(()),
    }
}

fn write_durations(metric: &mut MetricEncoder<'_>, durations: &Buckets) -> fmt::Result {
    let buckets: Vec<(f64, u64)> = Buckets::bounds().zip(durations.counts.iter().copied()).collect();
    let count = buckets.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<NoLabelSet>(durations.sum, count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(family: &Family, labels: &[&str], value: Value) -> Sample {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Sample { family: family.name.to_owned(), labels, value }
    }

    #[test]
    fn samples_of_a_metric_stand_together() {
        let of = |process: &str, count| ProcessSamples {
            process: Some(process.to_owned()),
            samples: vec![
                sample(&families::RESTARTS, &["notes"], Value::Count(count)),
                sample(&families::UP, &["notes"], Value::Number(1.0)),
            ],
        };
        let text = encode(vec![of("7", 1), of("8", 2)]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            lines,
            [
                "# TYPE mendline_up gauge",
                r#"mendline_up{server="notes",process="7"} 1.0"#,
                r#"mendline_up{server="notes",process="8"} 1.0"#,
                "# TYPE mendline_restarts counter",
                r#"mendline_restarts_total{server="notes",process="7"} 1"#,
                r#"mendline_restarts_total{server="notes",process="8"} 2"#,
                "# EOF",
            ]
        );
    }

    #[test]
    fn labels_are_escaped_and_unknown_samples_left_out() {
        let unknown = Sample { family: "mendline_new".to_owned(), labels: Vec::new(), value: Value::Count(1) };
        let short = sample(&families::LOSSES, &["notes"], Value::Count(1));
        let other_kind = sample(&families::RESTARTS, &["x"], Value::Number(1.0));
        let quoted = sample(&families::UP, &["a\"\n\\b"], Value::Number(0.0));
        let samples = vec![unknown, short, other_kind, quoted];
        let text = encode(vec![ProcessSamples { process: None, samples }]);
        assert!(text.contains(r#"mendline_up{server="a\"\n\\b"} 0.0"#), "{text}");
        assert!(
            !text.contains("mendline_new") && !text.contains("losses") && !text.contains("restarts_total"),
            "{text}"
        );
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_infinity() {
        let counts = (1..=15).collect();
        let durations = Value::Durations(Buckets { sum: 2.5, counts });
        let samples = vec![sample(&families::RECOVERY_DURATION, &["notes"], durations)];
        let text = encode(vec![ProcessSamples { process: None, samples }]);
        for line in [
            "# UNIT mendline_recovery_duration_seconds seconds",
            r#"mendline_recovery_duration_seconds_sum{server="notes"} 2.5"#,
            r#"mendline_recovery_duration_seconds_count{server="notes"} 120"#,
            r#"mendline_recovery_duration_seconds_bucket{le="0.01",server="notes"} 1"#,
            r#"mendline_recovery_duration_seconds_bucket{le="300.0",server="notes"} 105"#,
            r#"mendline_recovery_duration_seconds_bucket{le="+Inf",server="notes"} 120"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
