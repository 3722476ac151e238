//! `cargo xtask sim`: many seeds, or one with its story.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::coverage::Coverage;
use crate::defect;
use crate::machine::Driven;
use crate::plan::Plan;
use crate::run::{self, Report};

const HELP: &str = "\
Lives simulated worlds and checks every promise in them.

Usage: cargo xtask sim [OPTIONS]

Options:
  --seeds N     how many seeds to live                  [default: 1000]
  --from S      the first of them                       [default: 0]
  --seed S      one seed only; the same as --from S --seeds 1
  --log         print everything that happens (for one seed)
  --defect K    wake planted defect K; 0 is the copy without any
  --threads N   how many threads                        [default: 2]
  --coverage    print what was visited
  --all         do not stop at the first broken promise; list the first seeds for each
";

/// What the command line asks for.
#[derive(Clone, Debug)]
struct Options {
    seeds: u64,
    from: u64,
    log: bool,
    driven: Driven,
    threads: u64,
    coverage: bool,
    all: bool,
}

/// Runs the command. `Err` is a sentence for a person.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        return out.write_all(HELP.as_bytes()).map_err(|error| error.to_string());
    }
    let options = parse(args)?;
    if options.log {
        return tell(&options, &mut out);
    }
    if options.all {
        return list(&options, &mut out);
    }
    live(&options, &mut out)
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options { seeds: 1_000, from: 0, log: false, driven: Driven::Engine, threads: 2, coverage: false, all: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            value.replace('_', "").parse::<u64>().map_err(|_| format!("{arg} needs a number and got `{value}`"))
        };
        match arg.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--seed" => (options.from, options.seeds) = (number()?, 1),
            "--threads" => options.threads = number()?.clamp(1, 64),
            "--defect" => options.driven = Driven::Planted(u32::try_from(number()?).map_err(|_| "no such defect".to_owned())?),
            "--log" => options.log = true,
            "--all" => options.all = true,
            "--coverage" => options.coverage = true,
            other => return Err(format!("unknown option `{other}`\n\n{HELP}")),
        }
    }
    Ok(options)
}

/// One seed with everything that happens in it.
fn tell(options: &Options, out: &mut impl Write) -> Result<(), String> {
    let report = run::run(options.from, options.driven, true);
    let mut text = Plan::new(options.from).to_string();
    for line in &report.lines {
        text.push_str(line);
        text.push('\n');
    }
    out.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    match report.violation {
        Some(violation) => Err(violation.to_string()),
        None => Ok(()),
    }
}

/// Every broken promise among many seeds, with the first seeds that broke it.
fn list(options: &Options, out: &mut impl Write) -> Result<(), String> {
    let mut broken: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for seed in options.from..options.from + options.seeds {
        if let Some(violation) = run::run_and_compare(seed, options.driven).violation {
            broken.entry(violation.promise).or_default().push(format!("  seed {seed} at {}: {}", violation.at, violation.words));
        }
    }
    for (promise, cases) in &broken {
        let first = cases.iter().take(4).map(|case| format!("{case}\n")).collect::<String>();
        out.write_all(format!("{promise}: {} seeds\n{first}", cases.len()).as_bytes()).map_err(|error| error.to_string())?;
    }
    if broken.is_empty() { Ok(()) } else { Err("promises were broken".into()) }
}

/// Many seeds.
fn live(options: &Options, out: &mut impl Write) -> Result<(), String> {
    let say = |out: &mut dyn Write, text: String| out.write_all(text.as_bytes()).map_err(|error| error.to_string());
    let started = Instant::now();
    let (failed, coverage, lived) = many(options.from, options.seeds, options.driven, options.threads);
    let took = started.elapsed().as_secs_f64();
    say(
        out,
        format!(
            "{} seeds from {} in {took:.1} s: {:.0} seeds/s on {} threads, {:.0} days of simulated time\n",
            options.seeds,
            options.from,
            options.seeds as f64 / took,
            options.threads,
            lived / 86_400.0
        ),
    )?;
    if options.coverage || failed.is_some() {
        say(out, coverage.to_string())?;
    }
    let Some(report) = failed else { return Ok(()) };
    let violation = report.violation.map(|violation| violation.to_string()).unwrap_or_default();
    let planted = match options.driven {
        Driven::Engine => String::new(),
        Driven::Planted(number) => format!(" --defect {number}"),
    };
    Err(format!(
        "{violation}\n  reproduce: cargo xtask sim --seed {}{planted} --log\n  keep it:   echo '# {violation}' > crates/mendline-sim/regressions/{}.txt",
        report.seed, report.seed
    ))
}

/// Lives these seeds on several threads; gives the failing one with the lowest number, what was visited, and the seconds
/// that passed in the worlds.
pub fn many(from: u64, seeds: u64, driven: Driven, threads: u64) -> (Option<Report>, Coverage, f64) {
    let next = AtomicU64::new(from);
    let stop = AtomicBool::new(false);
    let all: Mutex<(Option<Report>, Coverage, f64)> = Mutex::new((None, Coverage::default(), 0.0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut coverage = Coverage::default();
                let mut lived = 0.0;
                let mut failed: Option<Report> = None;
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        break;
                    }
                    let report = run::run_and_compare(seed, driven);
                    coverage.add(&report.coverage);
                    lived += report.lived.as_secs_f64();
                    if report.violation.is_some() {
                        stop.store(true, Ordering::Relaxed);
                        failed = Some(report);
                        break;
                    }
                }
                if let Ok(mut all) = all.lock() {
                    all.1.add(&coverage);
                    all.2 += lived;
                    let first = match (&all.0, &failed) {
                        (Some(had), Some(new)) => new.seed < had.seed,
                        (None, Some(_)) => true,
                        _ => false,
                    };
                    if first {
                        all.0 = failed;
                    }
                }
            });
        }
    });
    all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The planted defects, for people.
pub fn defects() -> String {
    defect::ALL.iter().map(|it| format!("{:>2} {}: {}\n", it.number, it.name, it.prose)).collect()
}
