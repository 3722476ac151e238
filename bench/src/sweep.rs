//! Measures the throughput with more and more calls in flight.
//!
//! A program in the middle must not become slower because its client asks for more at a time. The relays and Mendline
//! run in turn; each run measures every width. The target is computed within a run, so that the load of the machine
//! affects all widths alike: with more than [`REFERENCE`] calls in flight, Mendline answers at least [`TARGET`] times
//! as many calls per second as with that many. The median over the rounds is compared with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::plan::URL;

/// The numbers of calls in flight.
pub(crate) const WIDTHS: [usize; 7] = [1, 8, 32, 64, 128, 256, 512];

/// The width that wider ones are compared with.
const REFERENCE: usize = 64;

/// The least ratio to the throughput at the reference.
const TARGET: f64 = 0.95;

const ROUNDS: usize = 5;

const MENDLINE: &str = "mendline";

/// The figures of one run by key, as `load --measure sweep` prints them.
type Figures = BTreeMap<String, f64>;

/// The key of the calls per second with so many calls in flight.
pub(crate) fn calls_key(width: usize) -> String {
    format!("calls_per_second_{width}")
}

/// The key of the CPU time per call.
pub(crate) fn cpu_key(width: usize) -> String {
    format!("cpu_us_{width}")
}

/// Measures and prints the figures. `--mendline PATH` is the binary; with `--gate` a missed target is an error.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let value = |option: &str| args.iter().position(|arg| arg == option).and_then(|at| args.get(at + 1));
    let has = |option: &str| args.iter().any(|arg| arg == option);
    let mendline = PathBuf::from(value("--mendline").ok_or("`--mendline PATH` is missing")?);
    let rounds = match value("--rounds") {
        Some(text) => text.parse().ok().filter(|rounds| (1..=100).contains(rounds)),
        None => Some(ROUNDS),
    };
    let rounds: usize = rounds.ok_or("`--rounds`: a number from 1 to 100 is needed")?;
    let contenders = contenders(&mendline.display().to_string(), has("--http"))?;
    let mut measured: Vec<Vec<Figures>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        // Each contender comes first equally often.
        for turn in 0..contenders.len() {
            let number = (round + turn) % contenders.len();
            let (name, command) = &contenders[number];
            eprintln!("round {} of {rounds}: {name}", round + 1);
            measured[number].push(load(command, has("--http")).map_err(|why| format!("{name}: {why}"))?);
        }
    }
    let over = if has("--http") { "HTTP" } else { "stdio" };
    println!("\ncalls per second over {over} by calls in flight, and µs of CPU time per call; {rounds} rounds\n");
    print!("{:<12}", "in flight");
    contenders.iter().for_each(|(name, _)| print!("{name:>22}"));
    println!();
    for width in WIDTHS {
        print!("{width:<12}");
        for runs in &measured {
            let of = |key: String| median(runs.iter().filter_map(|run| run.get(&key).copied()).collect());
            let cell = format!("{:.0} ({:.1})", of(calls_key(width)), of(cpu_key(width)));
            print!("{cell:>22}");
        }
        println!();
    }
    println!();
    let mut missed = 0;
    for width in WIDTHS.into_iter().filter(|width| *width > REFERENCE) {
        for ((name, _), runs) in contenders.iter().zip(&measured) {
            let ratio = median(runs.iter().filter_map(|run| ratio(run, width)).collect());
            let verdict = match *name {
                MENDLINE if ratio < TARGET => {
                    missed += 1;
                    format!(", target {TARGET}: missed")
                }
                MENDLINE => format!(", target {TARGET}: met"),
                _ => String::new(),
            };
            println!("{name}: {width} in flight against {REFERENCE}: {ratio:.2} ×{verdict}");
        }
    }
    if has("--gate") && missed > 0 { Err(format!("{missed} targets missed")) } else { Ok(()) }
}

/// Returns the throughput at a width against that at the reference.
fn ratio(run: &Figures, width: usize) -> Option<f64> {
    let reference = *run.get(&calls_key(REFERENCE))?;
    (reference > 0.0).then_some(run.get(&calls_key(width))? / reference)
}

/// Returns the names and commands of the compared programs.
fn contenders(mendline: &str, over_http: bool) -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?.display().to_string();
    let owned = |command: &[&str]| command.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
    let widest = WIDTHS[WIDTHS.len() - 1].to_string();
    let run = [mendline, "run", "--no-catalogue", "--max-in-flight", &widest];
    Ok(if over_http {
        vec![
            ("relay", owned(&[&ours, "relay", "--http", URL])),
            ("stack relay", owned(&[&ours, "relay", "--stack", URL])),
            (MENDLINE, owned(&[&run[..], &[URL]].concat())),
        ]
    } else {
        let upstream = ["--", &ours, "upstream"];
        vec![
            ("relay", owned(&[&[&*ours, "relay"], &upstream[..]].concat())),
            (MENDLINE, owned(&[&run[..], &upstream].concat())),
        ]
    })
}

/// Runs the load generator in a child process, because it sets CPU affinity and adopts orphans for the whole process.
fn load(command: &[String], over_http: bool) -> Result<Figures, String> {
    let ours = std::env::current_exe().map_err(|error| error.to_string())?;
    let state = std::env::temp_dir().join(format!("mendline-bench-sweep-{}", std::process::id()));
    let mut load = Command::new(ours);
    load.args(["load", "--measure", "sweep", "--warmup", "200", "--millis", "500", "--starts", "1"]);
    load.args(["--over", if over_http { "http" } else { "stdio" }, "--"]).args(command);
    // Log files are part of the measurement and must not go into the user's state directory.
    let output = load.env("MENDLINE_STATE_DIR", &state).output();
    let _ = std::fs::remove_dir_all(&state);
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cannot parse the figures: {error}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length => f64::midpoint(values[(length - 1) / 2], values[length / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_refers_to_sixty_four_in_flight_of_the_same_run() {
        let run = Figures::from([(calls_key(64), 20_000.0), (calls_key(256), 15_000.0)]);
        assert_eq!(ratio(&run, 256), Some(0.75));
        assert_eq!(ratio(&run, 512), None);
        assert_eq!(ratio(&Figures::new(), 256), None);
    }

    #[test]
    fn mendline_may_have_the_widest_width_in_flight() {
        for over_http in [false, true] {
            let contenders = contenders("/bin/mendline", over_http).unwrap();
            let (_, command) = contenders.iter().find(|(name, _)| *name == MENDLINE).unwrap();
            assert!(command.windows(2).any(|pair| pair == ["--max-in-flight", "512"]), "{command:?}");
        }
    }
}
