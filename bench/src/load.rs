//! The load generator: starts a command, calls it, and reports figures. Over HTTP the upstream already runs; without a
//! command it is called directly.
//!
//! A run first starts the command many times, to measure the time from start to first answer. Then it starts it once
//! and measures memory at rest, sequential round trips, throughput with many calls in flight, big results, round trips
//! with all processes on one processor, and memory afterwards. CPU time is that of the program in the middle and its
//! helpers, without the client and the upstream. Every answer is checked to belong to an open request, because the
//! speed of wrong answers is meaningless.
//!
//! Figures are absolute. `compare` computes differences and ratios between contenders.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::affinity::{Affinity, Placement};
use crate::client::{Client, Endpoint};
use crate::http::remote::Remote;
use crate::plan::{Over, Plan, URL};
use crate::processes::{self, Processes};
use crate::sample::{Sample, micros};
use crate::sweep;

/// The time after which the watchdog ends a run.
const LIMIT: Duration = Duration::from_secs(120);

/// The idle time before the memory at rest is measured.
const REST: Duration = Duration::from_millis(1500);

const BIG: usize = 1 << 20;

/// Returns the figures of one run as a flat JSON object whose keys end with their unit.
pub(crate) fn run(plan: &Plan) -> Result<Value, String> {
    let affinity = Affinity::take(plan.cores).map_err(|error| format!("cannot choose the processors: {error}"))?;
    processes::adopt_orphans().map_err(|error| format!("cannot adopt orphans: {error}"))?;
    thread::spawn(watchdog);
    let remote = match plan.over {
        Over::Stdio => None,
        Over::Http => Some(Remote::start().map_err(|error| error.to_string())?),
    };
    let endpoint = endpoint(plan, remote.as_ref());
    let first_answers = first_answers(plan, &endpoint)?;
    let mut before = processes::descendants().map_err(|error| error.to_string())?;
    // The HTTP upstream serves all starts and belongs to the long run as well.
    before.retain(|pid| remote.as_ref().is_none_or(|remote| *pid != remote.id()));
    with_client(&endpoint, |client| {
        client.handshake()?;
        one_at_a_time(client, 1)?;
        // Helpers of the start have ended by then.
        thread::sleep(REST);
        let processes = Processes::since(&before)?;
        match plan.is_sweep {
            true => sweep(plan, &affinity, client, &processes),
            false => measure(plan, &affinity, client, &processes, &first_answers),
        }
    })
}

/// Returns the command with the URL inserted, or the URL itself if there is no command.
fn endpoint(plan: &Plan, remote: Option<&Remote>) -> Endpoint {
    match remote {
        None => Endpoint::Command(plan.command.clone()),
        Some(remote) if plan.command.is_empty() => Endpoint::Url(remote.url().to_owned()),
        Some(remote) => Endpoint::Command(plan.command.iter().map(|arg| arg.replace(URL, remote.url())).collect()),
    }
}

/// Starts the command many times and measures the time to the first answer.
fn first_answers(plan: &Plan, endpoint: &Endpoint) -> Result<Sample, String> {
    let mut durations = Vec::with_capacity(plan.starts);
    for _ in 0..plan.starts {
        let started = Instant::now();
        durations.push(with_client(endpoint, |client| {
            client.initialize()?;
            Ok(started.elapsed())
        })?);
    }
    sample(durations).map_err(|error| error.to_string())
}

/// Measures one long run.
fn measure(
    plan: &Plan,
    affinity: &Affinity,
    client: &mut Client,
    processes: &Processes,
    first_answers: &Sample,
) -> io::Result<Value> {
    let idle = processes.memory()?;

    affinity.place(Placement::Apart, processes.middle(), processes.upstream())?;
    let (round_trips, cpu_lone) = sequential_calls(plan, client, processes)?;

    in_flight(client, plan.in_flight, plan.throughput_for / 10)?;
    let cpu_before = processes.cpu()?;
    let (calls, took) = in_flight(client, plan.in_flight, plan.throughput_for)?;
    let cpu_in_flight = processes.cpu()?.saturating_sub(cpu_before);

    big_results(client, plan.big_calls.div_ceil(10))?;
    let cpu_before = processes.cpu()?;
    let big = sample(big_results(client, plan.big_calls)?)?;
    let cpu_big = processes.cpu()?.saturating_sub(cpu_before);

    affinity.place(Placement::Together, processes.middle(), processes.upstream())?;
    let (together, cpu_together) = sequential_calls(plan, client, processes)?;
    thread::sleep(REST);
    let after = processes.memory()?;

    Ok(json!({
        "round_trip_p50_us": round_trips.percentile_us(50),
        "round_trip_p95_us": round_trips.percentile_us(95),
        "round_trip_p99_us": round_trips.percentile_us(99),
        "calls_per_second": calls as f64 / took.as_secs_f64(),
        "cpu_lone_us": cpu_lone,
        "cpu_busy_us": micros(cpu_in_flight) / calls as f64,
        "together_p50_us": together.percentile_us(50),
        "cpu_together_us": cpu_together,
        "big_p50_us": big.percentile_us(50),
        "cpu_big_us": micros(cpu_big) / plan.big_calls as f64,
        "first_answer_p50_us": first_answers.percentile_us(50),
        "idle_private_kib": idle.private,
        "idle_written_kib": idle.written,
        "idle_pss_kib": idle.pss,
        "after_private_kib": after.private,
        "after_written_kib": after.written,
        "after_pss_kib": after.pss,
        "peak_rss_kib": after.peak,
        "processes": processes.middle().len(),
    }))
}

/// Measures only the throughput and its CPU time, with different numbers of calls in flight.
fn sweep(plan: &Plan, affinity: &Affinity, client: &mut Client, processes: &Processes) -> io::Result<Value> {
    affinity.place(Placement::Apart, processes.middle(), processes.upstream())?;
    one_at_a_time(client, plan.warmup)?;
    let mut figures = serde_json::Map::new();
    for width in sweep::WIDTHS {
        // Connections are dialed here.
        in_flight(client, width, plan.throughput_for / 5)?;
        let cpu_before = processes.cpu()?;
        let (calls, took) = in_flight(client, width, plan.throughput_for)?;
        let cpu = processes.cpu()?.saturating_sub(cpu_before);
        figures.insert(sweep::calls_key(width), json!(calls as f64 / took.as_secs_f64()));
        figures.insert(sweep::cpu_key(width), json!(micros(cpu) / calls as f64));
    }
    Ok(Value::Object(figures))
}

/// Makes sequential calls after a warm-up. Returns their durations and the CPU time per call in microseconds.
fn sequential_calls(plan: &Plan, client: &mut Client, processes: &Processes) -> io::Result<(Sample, f64)> {
    one_at_a_time(client, plan.warmup)?;
    let cpu_before = processes.cpu()?;
    let round_trips = sample(one_at_a_time(client, plan.calls)?)?;
    let cpu = processes.cpu()?.saturating_sub(cpu_before);
    Ok((round_trips, micros(cpu) / plan.calls as f64))
}

pub(crate) fn one_at_a_time(client: &mut Client, calls: usize) -> io::Result<Vec<Duration>> {
    let mut durations = Vec::with_capacity(calls);
    for _ in 0..calls {
        let sent = Instant::now();
        client.call_echo()?;
        client.read_expected_answer()?;
        durations.push(sent.elapsed());
    }
    Ok(durations)
}

/// Keeps `width` calls open for `lasting`: every answer is followed by the next call. Returns the number of answers and
/// the time up to the last one.
pub(crate) fn in_flight(client: &mut Client, width: usize, lasting: Duration) -> io::Result<(usize, Duration)> {
    let mut open = Vec::with_capacity(width);
    let started = Instant::now();
    for _ in 0..width {
        open.push(client.call_echo()?);
    }
    let mut answered = 0;
    let mut over = false;
    while !open.is_empty() {
        let (id, _) = client.read_answer()?;
        let Some(at) = open.iter().position(|sent| *sent == id) else {
            return Err(io::Error::other(format!("an answer to request {id}, which is not open")));
        };
        answered += 1;
        // Reading the clock has a cost, so it is read every 32 answers.
        over = over || (answered % 32 == 0 && started.elapsed() >= lasting);
        if over {
            open.swap_remove(at);
        } else {
            open[at] = client.call_echo()?;
        }
    }
    Ok((answered, started.elapsed()))
}

fn big_results(client: &mut Client, calls: usize) -> io::Result<Vec<Duration>> {
    let mut durations = Vec::with_capacity(calls);
    for _ in 0..calls {
        let sent = Instant::now();
        client.call_big(BIG)?;
        let size = client.read_expected_answer()?;
        durations.push(sent.elapsed());
        if size < BIG {
            return Err(io::Error::other(format!("the big result has only {size} bytes")));
        }
    }
    Ok(durations)
}

/// Starts the endpoint, runs the measurement and ends it. An error includes the end of the program's stderr.
fn with_client<T>(endpoint: &Endpoint, run: impl FnOnce(&mut Client) -> io::Result<T>) -> Result<T, String> {
    let mut client = Client::start(endpoint)?;
    let done = run(&mut client).map_err(|error| format!("{error}\n{}", client.stderr_tail()));
    client.end().map_err(|error| error.to_string())?;
    done
}

pub(crate) fn sample(durations: Vec<Duration>) -> io::Result<Sample> {
    Sample::try_new(durations).ok_or_else(|| io::Error::other("nothing was measured"))
}

/// The watchdog: ends a run that hangs, with all its processes.
pub(crate) fn watchdog() {
    thread::sleep(LIMIT);
    eprintln!("mendline-bench load: no figures within {} seconds", LIMIT.as_secs());
    for pid in processes::descendants().unwrap_or_default() {
        if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
            // A process that has just ended needs no signal.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    std::process::exit(1);
}
