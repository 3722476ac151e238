//! Compares contenders with each other and with the targets.
//!
//! Absolute times depend on the machine and its load. All contenders therefore run in turn, each round starts with
//! another one, and every difference and ratio is computed *within* a round before the median over the rounds is taken.
//! A slow phase then affects one round of all contenders and not all rounds of one.
//!
//! A contender that cannot be measured is excluded with its reason. The contenders that ratios need must work.

mod contender;
mod figure;
mod round;
mod table;
mod target;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::plan::Over;
use contender::{Contender, Paths};
use round::{Figures, Rounds};
use target::Verdict;

/// The least work that still gives a p99. For quick checks, not for published figures.
const QUICK: [&str; 10] =
    ["--calls", "1000", "--warmup", "200", "--millis", "500", "--big-calls", "10", "--starts", "5"];

/// The options of `mendline-bench compare`.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    rounds: usize,
    quick: bool,
    json: bool,
    gate: bool,
    cores: usize,
    over: Over,
    mendline: Option<PathBuf>,
    peers: Option<PathBuf>,
    out: Option<PathBuf>,
}

/// Measures and prints. Fails if a target is missed and `--gate` is set.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let options = Options::try_new(args)?;
    let paths = Paths { mendline: options.mendline.as_deref(), peers: options.peers.as_deref() };
    let mut contenders = contender::all(options.over, &paths)?;
    let load_average = load_average();
    let rounds = measure(&options, &mut contenders)?;
    let verdicts = target::judge(&rounds, options.over, contender::floor(options.over));

    let report = report(&options, &contenders, &rounds, &verdicts, load_average);
    if let Some(out) = &options.out {
        save(out, &report).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    if options.json {
        println!("{report:#}");
    } else {
        print!("{}", table::text(options.over, &contenders, &rounds, &verdicts, load_average));
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.is_reached()).count();
    match missed {
        missed if options.gate && missed > 0 => Err(format!("{missed} of {} targets missed", verdicts.len())),
        _ => Ok(()),
    }
}

impl Options {
    fn try_new(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            quick: false,
            json: false,
            gate: false,
            cores: 2,
            over: Over::Stdio,
            mendline: None,
            peers: None,
            out: None,
        };
        let mut rounds = None;
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("`{option}` needs a value"));
            match option.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--gate" => options.gate = true,
                "--http" => options.over = Over::Http,
                "--rounds" => rounds = Some(count(option, value()?)?),
                "--cores" => options.cores = count(option, value()?)?,
                "--mendline" => options.mendline = Some(value()?.into()),
                "--peers" => options.peers = Some(value()?.into()),
                "--out" => options.out = Some(value()?.into()),
                other => return Err(format!("unknown option `{other}`")),
            }
        }
        if options.peers.is_some() && options.over == Over::Stdio {
            return Err("`--peers` needs `--http`: the peers go from stdio to HTTP".into());
        }
        options.rounds = rounds.unwrap_or(if options.quick { 3 } else { options.rounds });
        Ok(options)
    }
}

fn count(option: &str, value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(number @ 1..=100) => Ok(number),
        _ => Err(format!("`{option} {value}`: a number from 1 to 100 is needed")),
    }
}

fn measure(options: &Options, contenders: &mut [Contender]) -> Result<Rounds, String> {
    let mut rounds = Rounds::default();
    for round in 0..options.rounds {
        // Each contender comes first, second and last equally often, so that none always runs on a warm machine.
        for turn in 0..contenders.len() {
            let contender = &mut contenders[(round + turn) % contenders.len()];
            let Some(command) = contender.command() else { continue };
            eprintln!("round {} of {}: {}", round + 1, options.rounds, contender.name);
            match load(options, command) {
                Ok(figures) => rounds.add(round, contender.name, figures),
                Err(why) if contender.must_work => return Err(format!("{}: {why}", contender.name)),
                Err(why) => {
                    // A contender without all rounds cannot be compared, so it is not started again.
                    rounds.remove(contender.name);
                    contender.exclude(why);
                }
            }
        }
    }
    Ok(rounds)
}

/// Runs the load generator in a child process, because it sets CPU affinity and adopts orphans for the whole process.
fn load(options: &Options, command: &[String]) -> Result<Figures, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut load = Command::new(ours);
    load.args(["load", "--cores", &options.cores.to_string()]);
    if options.quick {
        load.args(QUICK);
    }
    if options.over == Over::Http {
        load.args(["--over", "http"]);
    }
    if !command.is_empty() {
        load.arg("--").args(command);
    }
    // Log files are part of the measurement and must not go into the user's state directory.
    let state = std::env::temp_dir().join(format!("mendline-bench-{}", std::process::id()));
    let output = load.env("MENDLINE_STATE_DIR", &state).output();
    let _ = fs::remove_dir_all(&state);
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cannot parse the figures: {error}"))
}

fn report(
    options: &Options,
    contenders: &[Contender],
    rounds: &Rounds,
    verdicts: &[Verdict],
    load_average: Option<f64>,
) -> Value {
    let measured: serde_json::Map<_, _> = rounds
        .names()
        .map(|name| {
            let medians: Figures =
                figure::ALL.iter().filter_map(|f| Some((f.key.to_owned(), rounds.of(name, f.key)?.median))).collect();
            let beyond_direct: Figures = figure::ALL
                .iter()
                .filter(|f| f.has_beyond_direct)
                .filter_map(|f| Some((f.key.to_owned(), rounds.beyond_direct(name, f.key)?.median)))
                .collect();
            let each: Vec<_> = rounds.each(name).collect();
            (name.to_owned(), json!({ "median": medians, "beyond_direct": beyond_direct, "rounds": each }))
        })
        .collect();
    let left_out: serde_json::Map<_, _> = contenders
        .iter()
        .filter_map(|contender| Some((contender.name.to_owned(), contender.why_excluded()?.into())))
        .collect();
    json!({
        "rounds": options.rounds,
        "quick": options.quick,
        "cores": options.cores,
        "over": match options.over {
            Over::Stdio => "stdio",
            Over::Http => "http",
        },
        "load_average_before": load_average,
        "contenders": measured,
        "left_out": left_out,
        "floor": contender::floor(options.over),
        "targets": verdicts.iter().map(Verdict::to_json).collect::<Vec<_>>(),
        "against_relay": target::ratios(rounds, options.over, contender::RELAY).iter().map(Verdict::to_json).collect::<Vec<_>>(),
    })
}

fn save(out: &PathBuf, report: &Value) -> std::io::Result<()> {
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(out, format!("{report:#}\n"))
}

/// The load average of the last minute, because figures of a busy machine are less reliable.
fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, String> {
        Options::try_new(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn quick_reduces_rounds_unless_they_are_given() {
        assert_eq!(options("").unwrap().rounds, 5);
        assert_eq!(options("--quick").unwrap().rounds, 3);
        assert_eq!(options("--rounds 9 --quick").unwrap().rounds, 9);
    }

    #[test]
    fn invalid_options_are_refused_by_name() {
        for (line, named) in
            [("--rounds 0", "--rounds 0"), ("--rounds", "--rounds"), ("--fast", "--fast"), ("--peers x", "--http")]
        {
            let why = options(line).unwrap_err();
            assert!(why.contains(named), "`{line}` was refused with `{why}`");
        }
    }

    #[test]
    fn quick_options_are_accepted_by_load() {
        let args: Vec<String> = QUICK.iter().chain(&["--", "cat"]).map(|arg| (*arg).to_owned()).collect();
        assert_eq!(crate::plan::Plan::try_new(&args).unwrap().calls, 1_000);
    }
}
