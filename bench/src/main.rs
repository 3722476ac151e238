//! The programs of `cargo xtask bench`: a load generator, upstreams, relays, and the comparison.
//!
//! They are one binary, so that one build makes all of them. They are minimal, so that the measurement is about the
//! program in the middle. `compare` runs them in turn and compares the figures with the targets; `cargo xtask bench`
//! only builds and calls it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program prints figures")]

mod affinity;
mod answers;
mod client;
mod compare;
mod gateway;
mod http;
mod lines;
mod load;
mod logs;
mod plan;
mod processes;
mod relay;
mod sample;
mod scan;
mod scratch;
mod startup;
mod status;
mod sweep;
mod upstream;

use std::process::ExitCode;

const HELP: &str = "\
The programs of `cargo xtask bench`.

Usage: mendline-bench upstream [--http PORT | --chatter N]
       mendline-bench relay -- CMD [ARGS…]
       mendline-bench relay --http URL
       mendline-bench relay --stack URL
       mendline-bench load [OPTIONS] -- CMD [ARGS…]
       mendline-bench compare [OPTIONS]
       mendline-bench startup --mendline PATH [--gate]
       mendline-bench status --mendline PATH [--gate]
       mendline-bench logs --mendline PATH [--rounds N] [--gate]
       mendline-bench sweep --mendline PATH [--http] [--rounds N] [--gate]
       mendline-bench gateway --mendline PATH [OPTIONS]
       mendline-bench sessions --mendline PATH [--quick] [--gate]
       mendline-bench forward PORT (URL | -- CMD [ARGS…])

Commands:
  upstream  runs a minimal MCP server on stdio, or on HTTP until stdin ends (PORT 0: any), with the tools `echo`,
            `big` and `wait`; with --chatter it also writes N lines per second to stderr
  relay     starts CMD and copies bytes both ways, or sends each line as a POST to URL and writes each body as a line:
            the lower bound for a program in the middle. With --stack it uses tokio and hyper
  load      starts CMD, calls it, and prints figures as one JSON object
  compare   runs direct, relay and mendline in turn and prints a table, ratios and targets
  startup   measures the time to the tools of a server that has not started
  status    measures `mendline status` with fifty running processes
  logs      measures the cost of log files: the same load with and without them, in turn
  sweep     measures the throughput with 1 to 512 calls in flight
  gateway   compares `mendline serve` with the smallest program that does the same, before HTTP and stdio
  sessions  measures `mendline serve` with up to 10,000 sessions
  forward   forwards POST requests to URL, or as lines to CMD: the lower bound for a gateway

Options of load:
  --calls N       round trips measured one at a time            [5000]
  --warmup N      round trips before them, not counted          [500]
  --in-flight N   calls kept in flight for the throughput       [32]
  --millis N      how long the throughput is measured           [2000]
  --big-calls N   calls with a result of 1 MiB                  [40]
  --starts N      starts measured up to the first answer        [20]
  --cores N       processors for all processes                  [2]
  --measure WHAT  all figures, or sweep: only the throughput with 1 to 512 calls in flight [all]
  --over HOW      stdio: CMD starts the upstream; http: the upstream already runs, CMD gets its URL in place of {url},
                  and without CMD it is called directly         [stdio]

Options of gateway:
  --rounds N       turns for each contender                     [5, quick: 3]
  --quick          less work in each turn
  --gate           fails when a target is missed
  --peers PATH     includes the peers installed there
  --fastmcp PATH   includes FastMCP from the Python there
  --out PATH       writes the report there as JSON

Options of compare:
  --rounds N       turns for each contender                     [5, quick: 3]
  --quick          less work in each turn
  --json           prints the report as JSON instead of a table
  --gate           fails when a target is missed
  --cores N        processors for all processes                 [2]
  --http           uses an upstream on HTTP instead of stdio
  --peers PATH     includes the peers installed there; needs --http
  --mendline PATH  the measured binary
  --out PATH       writes the report there as JSON
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let done = match command.as_str() {
        "upstream" => serve(&rest).map(|()| ExitCode::SUCCESS),
        "relay" => relay(&rest),
        "load" => plan::Plan::try_new(&rest).and_then(|plan| load::run(&plan)).map(|figures| {
            println!("{figures}");
            ExitCode::SUCCESS
        }),
        "compare" => compare::run(&rest).map(|()| ExitCode::SUCCESS),
        "startup" => startup::run(&rest).map(|()| ExitCode::SUCCESS),
        "status" => status::run(&rest).map(|()| ExitCode::SUCCESS),
        "logs" => logs::run(&rest).map(|()| ExitCode::SUCCESS),
        "sweep" => sweep::run(&rest).map(|()| ExitCode::SUCCESS),
        "gateway" => gateway::run(&rest).map(|()| ExitCode::SUCCESS),
        "gateway-run" => gateway::run::run(&rest).map(|figures| {
            println!("{figures}");
            ExitCode::SUCCESS
        }),
        "sessions" => gateway::sessions::run(&rest).map(|()| ExitCode::SUCCESS),
        "forward" => forward(&rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(format!("unknown command `{other}`; `mendline-bench help` lists them")),
    };
    done.unwrap_or_else(|why| {
        eprintln!("mendline-bench {command}: {why}");
        ExitCode::FAILURE
    })
}

fn serve(args: &[String]) -> Result<(), String> {
    let served = match args {
        [] => upstream::serve(),
        [option, port] if option == "--http" => {
            http::upstream::serve(port.parse().map_err(|_| format!("`--http {port}`: not a port"))?)
        }
        [option, lines] if option == "--chatter" => {
            let lines = lines.parse().map_err(|_| format!("`--chatter {lines}`: not a number"))?;
            std::thread::spawn(move || upstream::chatter(lines));
            upstream::serve()
        }
        _ => return Err("unknown options; use `--http PORT` or `--chatter N`".into()),
    };
    served.map_err(|error| error.to_string())
}

fn relay(args: &[String]) -> Result<ExitCode, String> {
    let relayed = match args {
        [option, url] if option == "--http" => http::relay::run(url),
        [option, url] if option == "--stack" => http::stack::run(url),
        _ => relay::run(plan::command_of(args)?),
    };
    relayed.map_err(|error| error.to_string())
}

fn forward(args: &[String]) -> Result<ExitCode, String> {
    let [port, behind @ ..] = args else { return Err("a port is needed".into()) };
    let port = port.parse().map_err(|_| format!("`{port}`: not a port"))?;
    gateway::floor::run(port, behind).map_err(|error| error.to_string())
}
