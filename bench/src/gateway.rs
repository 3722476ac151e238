//! Compares `mendline serve` with the smallest program that does the same and with other gateways.
//!
//! As in [`crate::compare`], all contenders run in turn, and every ratio is computed within a round before the median
//! over the rounds is taken. A peer that cannot be measured is left out with its reason.

mod caller;
mod contender;
pub(crate) mod floor;
pub(crate) mod run;
pub(crate) mod sessions;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use contender::{Behind, Contender, DIRECT, FLOOR, MENDLINE, Paths};

/// Figures by name.
type Figures = BTreeMap<String, f64>;

/// The options of `mendline-bench gateway`.
#[derive(Default)]
struct Options {
    rounds: Option<usize>,
    quick: bool,
    gate: bool,
    mendline: Option<PathBuf>,
    peers: Option<PathBuf>,
    fastmcp: Option<PathBuf>,
    out: Option<PathBuf>,
}

/// The figures of one kind of upstream.
struct Measured {
    behind: Behind,
    /// By round, then by contender.
    rounds: Vec<BTreeMap<&'static str, Figures>>,
    left_out: Vec<(&'static str, String)>,
}

/// A ratio of Mendline to the floor, and its bound.
struct Target {
    name: &'static str,
    key: &'static str,
    bound: f64,
    /// Whether the ratio must be at least the bound.
    is_least: bool,
    /// Whether the figure of the upstream alone is subtracted first.
    is_added: bool,
}

const fn target(name: &'static str, key: &'static str, bound: f64, is_least: bool, is_added: bool) -> Target {
    Target { name, key, bound, is_least, is_added }
}

const TARGETS: [Target; 5] = [
    target("added p50", "p50_us", 1.2, false, true),
    target("calls per second, 8 in flight", "calls_8", 0.8, true, false),
    target("calls per second, 64 in flight", "calls_64", 0.8, true, false),
    target("processor time per call, 8 in flight", "cpu_8_us", 1.7, false, false),
    target("processor time per call, 64 in flight", "cpu_64_us", 1.7, false, false),
];

/// Measures and prints. With `--gate` a missed target is an error.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let options = Options::try_new(args)?;
    let mut report = json!({ "quick": options.quick, "load_average_before": fs::read_to_string("/proc/loadavg").ok() });
    let mut missed = 0;
    for behind in Behind::ALL {
        let measured = measure(&options, behind)?;
        missed += table::print(&measured);
        report[behind.name()] = table::json(&measured);
    }
    if let Some(out) = &options.out {
        let saved =
            out.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(out, format!("{report:#}\n")));
        saved.map_err(|error| format!("{}: {error}", out.display()))?;
    }
    if options.gate && missed > 0 { Err(format!("{missed} targets missed")) } else { Ok(()) }
}

impl Options {
    fn try_new(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{option}` needs a value"));
            match option.as_str() {
                "--quick" => options.quick = true,
                "--gate" => options.gate = true,
                "--rounds" => options.rounds = value()?.parse().ok().filter(|rounds| (1..=100).contains(rounds)),
                "--mendline" => options.mendline = Some(value()?.into()),
                "--peers" => options.peers = Some(value()?.into()),
                "--fastmcp" => options.fastmcp = Some(value()?.into()),
                "--out" => options.out = Some(value()?.into()),
                other => return Err(format!("unknown option `{other}`")),
            }
        }
        if options.mendline.is_none() {
            return Err("`--mendline PATH` is missing".into());
        }
        Ok(options)
    }
}

fn measure(options: &Options, behind: Behind) -> Result<Measured, String> {
    let paths = Paths {
        mendline: options.mendline.as_deref(),
        peers: options.peers.as_deref(),
        fastmcp: options.fastmcp.as_deref(),
    };
    let mut contenders = contender::all(behind, &paths)?;
    let mut measured = Measured { behind, rounds: Vec::new(), left_out: Vec::new() };
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 5 });
    for round in 0..rounds {
        let mut figures = BTreeMap::new();
        let mut failed = Vec::new();
        for turn in 0..contenders.len() {
            let contender = &contenders[(round + turn) % contenders.len()];
            eprintln!("http to {}, round {} of {rounds}: {}", behind.name(), round + 1, contender.name);
            match load(options, behind, contender) {
                Ok(of_this) => _ = figures.insert(contender.name, of_this),
                Err(why) if [DIRECT, FLOOR, MENDLINE].contains(&contender.name) => {
                    return Err(format!("{}: {why}", contender.name));
                }
                Err(why) => failed.push((contender.name, why)),
            }
        }
        // A contender without all rounds cannot be compared, so it is not started again.
        contenders.retain(|contender| failed.iter().all(|(name, _)| *name != contender.name));
        measured.left_out.extend(failed);
        measured.rounds.push(figures);
    }
    Ok(measured)
}

/// Runs one contender in a process of its own.
fn load(options: &Options, behind: Behind, contender: &Contender) -> Result<Figures, String> {
    let mut load = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    load.arg("gateway-run").args(options.quick.then_some("--quick")).args([behind.name(), contender.path]);
    if !contender.command.is_empty() {
        load.arg("--").args(&contender.command);
    }
    let folder = std::env::temp_dir().join(format!("mendline-bench-{}", std::process::id()));
    load.env("MENDLINE_STATE_DIR", folder.join("state")).env("MENDLINE_RUNTIME_DIR", folder.join("run"));
    let output = load.output();
    let _ = fs::remove_dir_all(&folder);
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cannot parse the figures: {error}"))
}

impl Measured {
    /// The median of a figure of a contender.
    fn median(&self, name: &str, key: &str) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| round.get(name)?.get(key).copied()))
    }

    /// The median of a figure beyond that of the upstream alone.
    fn added(&self, name: &str, key: &str) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| Some(round.get(name)?.get(key)? - round.get(DIRECT)?.get(key)?)))
    }

    /// The median ratio of Mendline to the floor.
    fn ratio(&self, target: &Target) -> Option<f64> {
        median(self.rounds.iter().filter_map(|round| {
            let figure = |name: &str| round.get(name)?.get(target.key).copied();
            let base = if target.is_added { figure(DIRECT)? } else { 0.0 };
            Some((figure(MENDLINE)? - base) / (figure(FLOOR)? - base))
        }))
    }
}

impl Target {
    fn is_met(&self, ratio: f64) -> bool {
        if self.is_least { ratio >= self.bound } else { ratio <= self.bound }
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(direct: f64, floor: f64, mendline: f64) -> BTreeMap<&'static str, Figures> {
        let figures = |p50: f64| Figures::from([("p50_us".to_owned(), p50), ("calls_8".to_owned(), 1000.0 / p50)]);
        BTreeMap::from([(DIRECT, figures(direct)), (FLOOR, figures(floor)), (MENDLINE, figures(mendline))])
    }

    #[test]
    fn ratio_is_computed_within_each_round() {
        // The third round is ten times slower for all of them.
        let rounds = vec![round(10.0, 20.0, 22.0), round(10.0, 20.0, 21.0), round(100.0, 200.0, 220.0)];
        let measured = Measured { behind: Behind::Http, rounds, left_out: Vec::new() };
        assert!((measured.ratio(&TARGETS[0]).unwrap() - 1.2).abs() < 1e-9);
        assert_eq!(measured.added(FLOOR, "p50_us"), Some(10.0));
        assert!(TARGETS[0].is_met(1.2) && !TARGETS[0].is_met(1.21));
        assert!(TARGETS[1].is_met(0.8) && !TARGETS[1].is_met(0.79));
    }

    #[test]
    fn figure_that_is_missing_has_no_ratio() {
        let measured = Measured { behind: Behind::Http, rounds: vec![round(1.0, 2.0, 3.0)], left_out: Vec::new() };
        assert_eq!(measured.ratio(&TARGETS[4]), None);
        assert_eq!(measured.median("peer", "p50_us"), None);
    }
}
