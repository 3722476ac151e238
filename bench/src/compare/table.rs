//! The report as text: a column per contender, a row per figure, a line per target.

use std::fmt::Write;

use crate::plan::Over;

use super::contender::{Contender, RELAY, floor};
use super::figure::{self, CALLS, CPU_BUSY, Figure, P50, PROCESSES};
use super::round::{Rounds, Spread};
use super::target::{Bound, Verdict, ratios};

const LABEL: usize = 38;
const COLUMN: usize = 13;

/// The load average above which the report contains a warning.
const BUSY_MACHINE: f64 = 0.5;

/// Figures of these relays on another machine with two cores: added p50 in µs, calls per second with 32 in flight, µs
/// of CPU time per call. A large deviation means that the machine or the bench is unusual.
const BYTE_RELAY_REFERENCE: [(&str, f64); 3] = [(P50, 113.0), (CALLS, 54_900.0), (CPU_BUSY, 10.0)];
const HTTP_RELAY_REFERENCE: [(&str, f64); 3] = [(P50, 152.0), (CALLS, 16_850.0), (CPU_BUSY, 50.0)];

/// Formats the whole report for a terminal.
pub(crate) fn text(
    over: Over,
    contenders: &[Contender],
    rounds: &Rounds,
    verdicts: &[Verdict],
    load_average: Option<f64>,
) -> String {
    let columns: Vec<_> = contenders.iter().filter(|c| c.command().is_some()).map(|c| c.name).collect();
    let mut text = String::from("\n");
    row(&mut text, "median over the rounds", columns.iter().map(|name| Some((*name).to_owned())));
    for figure in &figure::ALL {
        row(&mut text, figure.label, columns.iter().map(|name| cell(figure, rounds, name)));
        if figure.has_beyond_direct {
            let added = |name: &&str| {
                let beyond = rounds.beyond_direct(name, figure.key)?;
                is_in_the_middle(rounds, name).then(|| format!("+{}", figure.show(beyond.median)))
            };
            row(&mut text, "  beyond direct", columns.iter().map(added));
        }
    }
    let floor = floor(over);
    let _ =
        writeln!(text, "\nTargets of Mendline against the {floor} of this run: median (least to most over the rounds)");
    for verdict in verdicts {
        line_of(&mut text, verdict);
    }
    text.push('\n');
    if floor != RELAY {
        let ratios = ratios(rounds, over, RELAY).into_iter().filter_map(|verdict| {
            Some(format!("{} {:.2} {}", verdict.target.what, verdict.measured?.median, verdict.target.unit))
        });
        let _ = writeln!(text, "Against the handwritten relay: {}.", ratios.collect::<Vec<_>>().join("; "));
    }
    for contender in contenders {
        if let Some(why) = contender.why_excluded() {
            let _ = writeln!(text, "{} is excluded: {why}", contender.name);
        }
    }
    let _ = writeln!(text, "{}", relay_reference(over, rounds));
    if let Some(load) = load_average.filter(|load| *load > BUSY_MACHINE) {
        let _ = writeln!(
            text,
            "The machine was busy before the run (load average {load}); trust the ratios, not the times."
        );
    }
    text
}

/// Figures of the middle do not exist for a contender without one.
fn cell(figure: &Figure, rounds: &Rounds, name: &str) -> Option<String> {
    let value = rounds.of(name, figure.key)?.median;
    (is_in_the_middle(rounds, name) || figure.has_beyond_direct || figure.key == CALLS).then(|| figure.show(value))
}

fn is_in_the_middle(rounds: &Rounds, name: &str) -> bool {
    rounds.of(name, PROCESSES).is_some_and(|processes| processes.median > 0.0)
}

fn row(text: &mut String, label: &str, cells: impl Iterator<Item = Option<String>>) {
    let _ = write!(text, "{label:<LABEL$}");
    for cell in cells {
        let _ = write!(text, "{:>COLUMN$}", cell.as_deref().unwrap_or("–"));
    }
    text.push('\n');
}

fn line_of(text: &mut String, verdict: &Verdict) {
    let target = verdict.target;
    let mark = match verdict.measured {
        Some(_) if verdict.is_reached() => '✓',
        Some(_) => '✗',
        None => '–',
    };
    let (sign, bound) = match target.bound {
        Bound::AtMost(bound) => ('≤', bound),
        Bound::AtLeast(bound) => ('≥', bound),
    };
    let measured = match verdict.measured {
        Some(Spread { median, least, most }) => format!("{median:.2} {} ({least:.2} to {most:.2})", target.unit),
        None => "not measured".into(),
    };
    let wanted = format!("{sign} {bound} {}", target.unit);
    let _ = writeln!(text, "  {mark} {:<32}{wanted:<10}{measured}", target.what);
}

fn relay_reference(over: Over, rounds: &Rounds) -> String {
    let reference = match over {
        Over::Stdio => BYTE_RELAY_REFERENCE,
        Over::Http => HTTP_RELAY_REFERENCE,
    };
    let here = reference.map(|(key, reference)| {
        let here = if key == P50 { rounds.beyond_direct(floor(over), key) } else { rounds.of(floor(over), key) };
        let digits = if key == CALLS { 0 } else { 1 };
        format!("{:.digits$} ({reference})", here.map_or(f64::NAN, |here| here.median))
    });
    format!(
        "The {} here, and in brackets on another machine with two cores: added p50 {} µs, \
         {} calls/s, {} µs CPU per call.",
        floor(over),
        here[0],
        here[1],
        here[2]
    )
}

#[cfg(test)]
mod tests {
    use super::super::contender;
    use super::super::round::Figures;
    use super::super::target::judge;
    use super::*;

    #[test]
    fn table_shows_differences_and_excluded_contenders() {
        let contenders = contender::all(Over::Stdio, &contender::Paths::default()).unwrap();
        let mut rounds = Rounds::default();
        let figures = |p50: f64, processes: f64| {
            Figures::from(
                [(P50, p50), (CALLS, 1000.0), (PROCESSES, processes)].map(|(key, value)| (key.to_owned(), value)),
            )
        };
        rounds.add(0, contender::DIRECT, figures(10.0, 0.0));
        rounds.add(0, RELAY, figures(60.0, 1.0));
        let text = text(Over::Stdio, &contenders, &rounds, &judge(&rounds, Over::Stdio, RELAY), Some(3.0));
        let line = |start: &str| {
            let line =
                text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no `{start}` in\n{text}"));
            line[start.len()..].split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(line("median over the rounds"), ["direct", "relay"]);
        assert_eq!(line("round trip p50, µs"), ["10.0", "60.0"]);
        assert_eq!(line("  beyond direct"), ["–", "+50.0"]);
        assert_eq!(line("processes in the middle"), ["–", "1"]);
        assert_eq!(line("  – added p50 of a call"), ["≤", "1.5", "×", "not", "measured"]);
        assert!(text.contains("mendline is excluded: no --mendline PATH was given"));
        assert!(text.contains("machine was busy"));
    }
}
