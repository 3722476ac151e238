//! Measures the cost of log files.
//!
//! The same load runs without and with log files in turn, many times, with as many calls as possible. The ratio is
//! computed within a round, as in `compare`. There are three loads:
//! - quiet: a healthy server writes nothing, so the cost is that of events kept for a later error;
//! - chatter: the server writes ten thousand lines per second to its stderr, and all of them go to the files. The
//!   target refers to this one;
//! - debug: every event of every call is written, far more than ten thousand per second.
//!
//! Throughput varies between runs by more than the target, so its range is shown. The CPU time of Mendline varies less
//! and is measured as well: the share of one processor that ten thousand lines per second take. Where Mendline has its
//! own processor, throughput cannot fall by more. The target is missed if that share is larger, or if three quarters of
//! the rounds lost more throughput.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Events per second for the target.
const EVENTS: f64 = 10_000.0;

/// The share of the throughput that they may cost.
const TARGET: f64 = 0.05;

const ROUNDS: usize = 9;

/// The minimum of everything but the throughput.
const LOAD: [&str; 12] =
    ["load", "--calls", "1", "--warmup", "1", "--big-calls", "1", "--starts", "1", "--millis", "2000", "--"];

/// A load.
struct Case {
    name: &'static str,
    level: &'static str,
    chatter: bool,
    has_target: bool,
}

const CASES: [Case; 3] = [
    Case { name: "quiet", level: "info", chatter: false, has_target: false },
    Case { name: "chatter", level: "info", chatter: true, has_target: true },
    Case { name: "debug", level: "debug", chatter: false, has_target: false },
];

/// The figures of one run.
struct LogRun {
    calls_a_second: f64,
    cpu_us: f64,
    /// Lines per second in the files, and dropped lines.
    written: f64,
    dropped: f64,
}

/// Measures and prints the figures. `--mendline PATH` is the binary; with `--gate` a missed target is an error.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let value = |option: &str| args.iter().position(|arg| arg == option).and_then(|at| args.get(at + 1));
    let mendline = PathBuf::from(value("--mendline").ok_or("`--mendline PATH` is missing")?);
    let rounds = match value("--rounds") {
        Some(text) => text.parse().ok().filter(|rounds| (1..=100).contains(rounds)),
        None => Some(ROUNDS),
    };
    let rounds: usize = rounds.ok_or("`--rounds`: a number from 1 to 100 is needed")?;
    println!("calls a second with log files against without them, 32 in flight, {rounds} rounds\n");
    println!(
        "{:<9} {:>12} {:>12} {:>9} {:>18} {:>11} {:>10} {:>9}",
        "", "without", "with", "cost", "middle half", "10k lines", "lines/s", "dropped"
    );
    let mut missed = false;
    for case in &CASES {
        let mut runs = Vec::new();
        for round in 0..rounds {
            // Each variant comes first equally often.
            let (first, second) = if round % 2 == 0 { ("off", case.level) } else { (case.level, "off") };
            let (a, b) = (run_once(&mendline, case, first)?, run_once(&mendline, case, second)?);
            runs.push(if round % 2 == 0 { (a, b) } else { (b, a) });
        }
        let of = |figure: &dyn Fn(&(LogRun, LogRun)) -> f64| quartiles(runs.iter().map(figure).collect())[1];
        let cost = |(without, with): &(LogRun, LogRun)| 1.0 - with.calls_a_second / without.calls_a_second;
        let [low, cost, high] = quartiles(runs.iter().map(cost).collect());
        let lines = of(&|(_, with)| with.written);
        let processor = |(without, with): &(LogRun, LogRun)| {
            let more = (with.cpu_us - without.cpu_us) * with.calls_a_second / 1e6;
            if with.written > EVENTS / 2.0 { more * EVENTS / with.written } else { 0.0 }
        };
        let processor = of(&processor);
        println!(
            "{:<9} {:>12.0} {:>12.0} {:>8.1}% {:>18} {:>10.1}% {:>10.0} {:>9.0}",
            case.name,
            of(&|(without, _)| without.calls_a_second),
            of(&|(_, with)| with.calls_a_second),
            100.0 * cost,
            format!("{:.1} to {:.1}%", 100.0 * low, 100.0 * high),
            100.0 * processor,
            lines,
            of(&|(_, with)| with.dropped),
        );
        if case.has_target {
            missed = low.max(processor) > TARGET;
        }
    }
    println!(
        "\ntarget: {EVENTS:.0} lines a second cost at most {:.0} %: {}",
        100.0 * TARGET,
        if missed { "missed" } else { "met" }
    );
    if args.iter().any(|arg| arg == "--gate") && missed { Err("the target was missed".into()) } else { Ok(()) }
}

fn run_once(mendline: &Path, case: &Case, level: &str) -> Result<LogRun, String> {
    let state = std::env::temp_dir().join(format!("mendline-bench-logs-{}", std::process::id()));
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut load = Command::new(&ours);
    load.args(LOAD).arg(mendline).args([
        "run",
        "--no-catalogue",
        "--log-level",
        "off",
        "--log-file-level",
        level,
        "--",
    ]);
    load.arg(&ours).arg("upstream").env("MENDLINE_STATE_DIR", &state);
    if case.chatter {
        load.args(["--chatter", &format!("{EVENTS}")]);
    }
    let output = load.output().map_err(|error| error.to_string())?;
    let written = lines(&state.join("logs"));
    let _ = fs::remove_dir_all(&state);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let figures: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let figure = |key: &str| figures[key].as_f64().ok_or_else(|| format!("no {key}"));
    let (written, dropped, seconds) = written?;
    Ok(LogRun {
        calls_a_second: figure("calls_per_second")?,
        cpu_us: figure("cpu_busy_us")?,
        written: written / seconds.max(1.0),
        dropped,
    })
}

/// Returns the numbers of written and dropped lines, and the seconds that they cover.
fn lines(folder: &Path) -> Result<(f64, f64, f64), String> {
    let (mut written, mut dropped, mut seconds) = (0.0, 0.0, 0.0_f64);
    let Ok(files) = fs::read_dir(folder) else { return Ok((0.0, 0.0, 0.0)) };
    for file in files.flatten() {
        let text = fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
        let second = |line: &str| line.get(26..35).and_then(|text| text.parse::<f64>().ok());
        let minute = |line: &str| line.get(23..25).and_then(|text| text.parse::<f64>().ok());
        let at = |line: Option<&str>| line.and_then(|line| Some(60.0 * minute(line)? + second(line)?)).unwrap_or(0.0);
        seconds += (at(text.lines().last()) - at(text.lines().next())).rem_euclid(3600.0);
        for line in text.lines() {
            written += 1.0;
            if let Some((count, _)) = line.split_once(" log lines were dropped") {
                dropped += count.rsplit('"').next().and_then(|count| count.parse::<f64>().ok()).unwrap_or(0.0);
            }
        }
    }
    Ok((written, dropped, seconds))
}

fn quartiles(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| figures[figures.len() * quarter / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_taken_from_sorted_figures() {
        assert_eq!(quartiles(vec![5.0, 1.0, 4.0, 2.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![7.0]), [7.0; 3]);
    }

    #[test]
    fn written_and_dropped_lines_are_counted_over_all_files() {
        let folder = std::env::temp_dir().join(format!("mendline-bench-lines-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let line = |second: u32, text: &str| {
            format!("{{\"time\":\"2026-11-15T12:59:{second:02}.500000Z\",\"text\":\"{text}\"}}\n")
        };
        fs::write(folder.join("a"), line(10, "x") + &line(12, "7 log lines were dropped: the disk did not keep up"))
            .unwrap();
        fs::write(folder.join("b"), line(30, "x") + &line(31, "x")).unwrap();
        let counted = lines(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(counted, Ok((4.0, 7.0, 3.0)));
    }
}
