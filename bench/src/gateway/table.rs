//! The report of a comparison: a table of medians, and the targets.

use serde_json::{Value, json};

use super::contender::DIRECT;
use super::{Measured, TARGETS};

/// The columns: title, key, whether the figure of the upstream alone is subtracted, and the divisor of the unit.
const COLUMNS: [(&str, &str, bool, f64); 8] = [
    ("added p50 µs", "p50_us", true, 1.0),
    ("p99 µs", "p99_us", false, 1.0),
    ("calls/s, 8", "calls_8", false, 1.0),
    ("calls/s, 64", "calls_64", false, 1.0),
    ("CPU µs, 1", "cpu_1_us", false, 1.0),
    ("CPU µs, 8", "cpu_8_us", false, 1.0),
    ("CPU µs, 64", "cpu_64_us", false, 1.0),
    ("PSS MiB", "after_pss_kib", false, 1024.0),
];

/// Prints the table and the targets. Returns the number of missed targets.
pub(super) fn print(measured: &Measured) -> usize {
    println!("\nhttp to {}, medians of {} rounds", measured.behind.name(), measured.rounds.len());
    print!("{:<16}", "");
    COLUMNS.iter().for_each(|(title, ..)| print!("{title:>13}"));
    println!();
    for name in names(measured) {
        print!("{name:<16}");
        for (_, key, is_added, unit) in COLUMNS {
            let value = if is_added && name != DIRECT { measured.added(name, key) } else { measured.median(name, key) };
            print!("{:>13}", value.map_or_else(|| "–".into(), |value| format!("{:.1}", value / unit)));
        }
        println!("{}", if name == DIRECT { "  (p50 itself)" } else { "" });
    }
    for (name, why) in &measured.left_out {
        println!("{name} was left out: {}", why.lines().next().unwrap_or_default());
    }
    let mut missed = 0;
    for target in &TARGETS {
        let Some(ratio) = measured.ratio(target) else { continue };
        let (sign, is_met) = (if target.is_least { "≥" } else { "≤" }, target.is_met(ratio));
        missed += usize::from(!is_met);
        let verdict = if is_met { "met" } else { "missed" };
        println!("  {:<38} {ratio:.2} × the floor, target {sign} {}: {verdict}", target.name, target.bound);
    }
    missed
}

/// Returns the same as JSON, with all rounds.
pub(super) fn json(measured: &Measured) -> Value {
    let targets = TARGETS.iter().filter_map(|target| {
        let ratio = measured.ratio(target)?;
        Some(json!({ "name": target.name, "ratio": ratio, "bound": target.bound, "met": target.is_met(ratio) }))
    });
    json!({
        "rounds": measured.rounds,
        "left_out": measured.left_out,
        "targets": targets.collect::<Vec<_>>(),
    })
}

/// The contenders of the last round, which were measured in all rounds.
fn names(measured: &Measured) -> Vec<&'static str> {
    let mut names: Vec<_> = measured.rounds.last().into_iter().flat_map(|round| round.keys().copied()).collect();
    let order = |name: &&str| [DIRECT, super::FLOOR, super::MENDLINE].iter().position(|it| it == name).unwrap_or(9);
    names.sort_by_key(order);
    names
}
