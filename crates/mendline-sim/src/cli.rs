//! `cargo xtask sim`: runs many seeds, or prints the log of some.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::coverage::Coverage;
use crate::defect;
use crate::machine::EngineKind;
use crate::plan::Plan;
use crate::run::{self, Report};

const HELP: &str = "\
Runs simulated worlds and checks every invariant.

Usage: cargo xtask sim [OPTIONS]

Options:
  --seeds N     number of seeds                         [default: 1000]
  --from S      first seed                              [default: 0]
  --seed S      one seed; same as --from S --seeds 1
  --log         print the log of every seed
  --defect K    activate planted defect K; 0 runs the copy without a defect
  --threads N   number of threads                       [default: 2]
  --coverage    print the coverage
  --defects     list the planted defects
  --all         continue after a broken invariant; list the first seeds of each
";

/// The options of the command line.
#[derive(Clone, Debug)]
struct Options {
    seeds: u64,
    from: u64,
    log: bool,
    engine_kind: EngineKind,
    threads: u64,
    coverage: bool,
    all: bool,
}

/// Runs the command. The error is a message for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        return out.write_all(HELP.as_bytes()).map_err(|error| error.to_string());
    }
    if args.iter().any(|arg| arg == "--defects") {
        return out.write_all(defects().as_bytes()).map_err(|error| error.to_string());
    }
    let options = parse(args)?;
    if options.log {
        return print_logs(&options, &mut out);
    }
    if options.all {
        return list(&options, &mut out);
    }
    run_seeds(&options, &mut out)
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        seeds: 1_000,
        from: 0,
        log: false,
        engine_kind: EngineKind::Engine,
        threads: 2,
        coverage: false,
        all: false,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            value.replace('_', "").parse::<u64>().map_err(|_| format!("{arg} needs a number, not `{value}`"))
        };
        match arg.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--seed" => (options.from, options.seeds) = (number()?, 1),
            "--threads" => options.threads = number()?.clamp(1, 64),
            "--defect" => {
                let defect = u32::try_from(number()?)
                    .map_err(|_| "--defect needs the number of a planted defect; see --defects".to_owned())?;
                options.engine_kind = EngineKind::Planted(defect);
            }
            "--log" => options.log = true,
            "--all" => options.all = true,
            "--coverage" => options.coverage = true,
            other => return Err(format!("unknown option `{other}`\n\n{HELP}")),
        }
    }
    Ok(options)
}

/// Prints the log of every seed.
fn print_logs(options: &Options, out: &mut impl Write) -> Result<(), String> {
    for seed in options.from..options.from + options.seeds {
        let report = run::run(seed, options.engine_kind, true);
        let mut text = Plan::new(seed).to_string();
        for line in &report.lines {
            text.push_str(line);
            text.push('\n');
        }
        out.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
        if let Some(violation) = report.violation {
            return Err(violation.to_string());
        }
    }
    Ok(())
}

/// Lists every broken invariant with the first seeds that broke it.
fn list(options: &Options, out: &mut impl Write) -> Result<(), String> {
    let mut broken: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut coverage = Coverage::default();
    for seed in options.from..options.from + options.seeds {
        let report = run::run_and_compare(seed, options.engine_kind);
        coverage.add(&report.coverage);
        if let Some(violation) = report.violation {
            broken
                .entry(violation.invariant)
                .or_default()
                .push(format!("  seed {seed} at {}: {}", violation.at, violation.text));
        }
    }
    for (invariant, cases) in &broken {
        let first = cases.iter().take(4).map(|case| format!("{case}\n")).collect::<String>();
        out.write_all(format!("{invariant}: {} seeds\n{first}", cases.len()).as_bytes())
            .map_err(|error| error.to_string())?;
    }
    if options.coverage {
        out.write_all(coverage.to_string().as_bytes()).map_err(|error| error.to_string())?;
    }
    if broken.is_empty() { Ok(()) } else { Err("invariants were broken; see the list above".into()) }
}

/// Runs many seeds and prints a summary.
fn run_seeds(options: &Options, out: &mut impl Write) -> Result<(), String> {
    let print = |out: &mut dyn Write, text: String| out.write_all(text.as_bytes()).map_err(|error| error.to_string());
    let started = Instant::now();
    let Summary { failed, coverage, seeds, time } =
        run_many(options.from, options.seeds, options.engine_kind, options.threads);
    let took = started.elapsed().as_secs_f64();
    let rate = seeds as f64 / took;
    let hours = time.as_secs() / 3_600;
    let text = format!(
        "{seeds} seeds from {} in {took:.1} s: {rate:.0} seeds/s on {} threads, {hours} hours of simulated time, {} requests\n",
        options.from, options.threads, coverage.requests
    );
    print(out, text)?;
    if options.coverage {
        print(out, coverage.to_string())?;
    }
    let Some(report) = failed else { return Ok(()) };
    let violation = report.violation.map(|violation| violation.to_string()).unwrap_or_default();
    let planted = match options.engine_kind {
        EngineKind::Engine => String::new(),
        EngineKind::Planted(number) => format!(" --defect {number}"),
    };
    Err(format!(
        "{violation}\n  reproduce: cargo xtask sim --seed {}{planted} --log\n  keep it:   echo '# {violation}' > crates/mendline-sim/regressions/{}.txt",
        report.seed, report.seed
    ))
}

/// The result of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// The failed seed with the lowest number.
    pub failed: Option<Report>,
    /// The coverage.
    pub coverage: Coverage,
    /// The number of seeds.
    pub seeds: u64,
    /// The simulated time.
    pub time: Duration,
}

impl Summary {
    fn add_report(&mut self, report: Report) {
        self.coverage.add(&report.coverage);
        self.seeds += 1;
        self.time += report.simulated;
        if report.violation.is_some() {
            self.keep_failed(report);
        }
    }

    fn add(&mut self, other: Summary) {
        self.coverage.add(&other.coverage);
        self.seeds += other.seeds;
        self.time += other.time;
        if let Some(report) = other.failed {
            self.keep_failed(report);
        }
    }

    fn keep_failed(&mut self, report: Report) {
        if self.failed.as_ref().is_none_or(|had| report.seed < had.seed) {
            self.failed = Some(report);
        }
    }
}

/// Runs these seeds on several threads. Stops soon after an invariant is broken.
pub fn run_many(from: u64, seeds: u64, engine_kind: EngineKind, threads: u64) -> Summary {
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let all = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Summary::default();
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        break;
                    }
                    mine.add_report(run::run_and_compare(seed, engine_kind));
                    if mine.failed.is_some() {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                if let Ok(mut all) = all.lock() {
                    all.add(mine);
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Lists the planted defects.
fn defects() -> String {
    defect::ALL.iter().map(|it| format!("{:>2} {}: {}\n", it.number, it.name, it.description)).collect()
}
