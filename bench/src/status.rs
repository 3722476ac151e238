//! Measures the duration of `mendline status` with many running processes.
//!
//! Fifty bridges run, each with its own initialized server, in a separate runtime directory. Then the command runs
//! repeatedly and is timed from its start to its end.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::scratch::{INITIALIZE, in_scratch_folder};

const PROCESSES: usize = 50;
const RUNS: usize = 40;
/// The target for the p90.
const TARGET: Duration = Duration::from_millis(50);

/// Measures and prints the figures. `--mendline PATH` is the binary; with `--gate` a missed target is an error.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let mut took = in_scratch_folder(args, measure)?;
    took.sort();
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    let millis = |part: usize| at(part).as_secs_f64() * 1000.0;
    println!("mendline status over {PROCESSES} running processes, {RUNS} times");
    println!("  p50 {:.2} ms, p90 {:.2} ms, slowest {:.2} ms", millis(50), millis(90), millis(100));
    let met = at(90) <= TARGET;
    println!("  target: {TARGET:?} at p90, {}", if met { "met" } else { "missed" });
    if args.iter().any(|arg| arg == "--gate") && !met { Err("the target was missed".into()) } else { Ok(()) }
}

fn measure(mendline: &Path, folder: &Path) -> io::Result<Vec<Duration>> {
    let mut bridges = Vec::new();
    for number in 0..PROCESSES {
        bridges.push(Bridge::start(mendline, folder, number)?);
    }
    let mut took = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        let output = Command::new(mendline).arg("status").env("MENDLINE_RUNTIME_DIR", folder.join("run")).output()?;
        took.push(begun.elapsed());
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.contains(&format!("{PROCESSES} servers: {PROCESSES} ready")) {
            return Err(io::Error::other(format!("not all servers are listed as ready:\n{output}")));
        }
    }
    Ok(took)
}

/// A bridge that is killed when this is dropped.
struct Bridge(Child);

impl Bridge {
    fn start(mendline: &Path, folder: &Path, number: usize) -> io::Result<Bridge> {
        let process = Command::new(mendline)
            .args(["run", "--log-level", "off", "--no-catalogue", "--name", &format!("server-{number:02}"), "--"])
            .arg(mendline)
            .arg("demo-server")
            .env("MENDLINE_STATE_DIR", folder.join("state"))
            .env("MENDLINE_RUNTIME_DIR", folder.join("run"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut bridge = Bridge(process);
        let (Some(stdin), Some(stdout)) = (&mut bridge.0.stdin, &mut bridge.0.stdout) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        stdin.write_all(format!("{INITIALIZE}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match line.contains("demo-server") {
            true => Ok(bridge),
            false => Err(io::Error::other(format!("the handshake failed: {line}"))),
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
