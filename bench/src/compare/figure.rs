//! The measured figures in the order of the table.
//!
//! `load` reports figures by key; this module defines their labels and formats.

/// A row of the table.
pub(crate) struct Figure {
    /// The key in the JSON of `load`.
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    /// The divisor that converts the measured number into the unit of the label.
    pub(crate) per: f64,
    pub(crate) decimals: usize,
    /// True if the figure includes the upstream, so that the difference to direct is a row, too.
    pub(crate) has_beyond_direct: bool,
}

pub(crate) const P50: &str = "round_trip_p50_us";
pub(crate) const CALLS: &str = "calls_per_second";
pub(crate) const CPU_LONE: &str = "cpu_lone_us";
pub(crate) const BIG_P50: &str = "big_p50_us";
pub(crate) const CPU_TOGETHER: &str = "cpu_together_us";
pub(crate) const CPU_BUSY: &str = "cpu_busy_us";
pub(crate) const FIRST_ANSWER: &str = "first_answer_p50_us";
pub(crate) const PSS_AT_REST: &str = "idle_pss_kib";
pub(crate) const PROCESSES: &str = "processes";

pub(crate) const ALL: [Figure; 19] = [
    timed(P50, "round trip p50, µs", 1.0, 1),
    timed("round_trip_p95_us", "round trip p95, µs", 1.0, 1),
    timed("round_trip_p99_us", "round trip p99, µs", 1.0, 1),
    plain(CALLS, "calls/s, 32 in flight", 1.0, 0),
    plain(CPU_LONE, "CPU per call, one at a time, µs", 1.0, 2),
    plain(CPU_BUSY, "CPU per call, 32 in flight, µs", 1.0, 2),
    timed("together_p50_us", "all on one core: round trip p50, µs", 1.0, 1),
    plain(CPU_TOGETHER, "all on one core: CPU per call, µs", 1.0, 2),
    timed(BIG_P50, "1 MiB result p50, µs", 1.0, 0),
    plain("cpu_big_us", "CPU per 1 MiB result, µs", 1.0, 0),
    timed(FIRST_ANSWER, "start to first answer p50, ms", 1000.0, 2),
    plain("idle_private_kib", "memory at rest, private, MiB", 1024.0, 2),
    plain("idle_written_kib", "memory at rest, written, MiB", 1024.0, 2),
    plain(PSS_AT_REST, "memory at rest, PSS, MiB", 1024.0, 2),
    plain("after_private_kib", "memory after the run, private, MiB", 1024.0, 2),
    plain("after_written_kib", "memory after the run, written, MiB", 1024.0, 2),
    plain("after_pss_kib", "memory after the run, PSS, MiB", 1024.0, 2),
    plain("peak_rss_kib", "largest resident set, MiB", 1024.0, 2),
    plain(PROCESSES, "processes in the middle", 1.0, 0),
];

impl Figure {
    /// Formats a value for the table.
    pub(crate) fn show(&self, value: f64) -> String {
        format!("{:.*}", self.decimals, value / self.per)
    }
}

const fn timed(key: &'static str, label: &'static str, per: f64, decimals: usize) -> Figure {
    Figure { key, label, per, decimals, has_beyond_direct: true }
}

const fn plain(key: &'static str, label: &'static str, per: f64, decimals: usize) -> Figure {
    Figure { key, label, per, decimals, has_beyond_direct: false }
}
