//! A server that stops and starts every second, and the calls of another server.
//!
//! Both have clients. The other server's calls are measured while the first one flaps, and while it does not.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::caller::Caller;
use super::{Bench, Report};
use crate::sample::Sample;

const STEADY: u8 = 0;
const FLAPS: u8 = 1;
const OVER: u8 = 2;

/// The clients of the server that flaps.
const OTHERS: usize = 4;
/// The pause of such a client between two calls.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn measure(bench: &Bench, report: &mut Report) -> io::Result<()> {
    println!("a server that flaps every second beside another");
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let ours = std::env::current_exe()?.display().to_string();
    let config = bench.folder.join("flapping.json");
    let servers = json!({ "mcpServers": {
        "steady": { "command": ours, "args": ["upstream"] },
        "flapping": { "url": format!("http://127.0.0.1:{port}/mcp") },
    } });
    fs::write(&config, servers.to_string())?;
    let mode = AtomicU8::new(STEADY);
    let is_up = AtomicBool::new(false);
    let gateway = bench.gateway(&["--config", &config.display().to_string()], &[], None)?;
    gateway.wait_until_listening()?;
    thread::scope(|scope| {
        scope.spawn(|| flap(port, &mode, &is_up));
        while !is_up.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
        let clients: Vec<_> = (0..OTHERS).map(|_| scope.spawn(|| call_the_other(gateway.port(), &mode))).collect();
        let measured = rounds(bench, gateway.port(), &mode);
        mode.store(OVER, Ordering::SeqCst);
        let answered: usize = clients.into_iter().map(|client| client.join().unwrap_or(0)).sum();
        let (mut ratios, p99, calls) = measured?;
        ratios.sort_by(f64::total_cmp);
        Report::note("calls of the steady server, all answered", calls as f64, "calls");
        Report::note("calls of the flapping server that were answered", answered as f64, "calls");
        Report::note("p99 of the steady server alone", p99, "µs");
        report.at_most("p99 while the other flaps", ratios[ratios.len() / 2], 1.2, "×");
        Ok(())
    })
}

/// Returns the ratios of the p99, the p99 without flaps, and the number of calls. Every call must succeed.
fn rounds(bench: &Bench, port: u16, mode: &AtomicU8) -> io::Result<(Vec<f64>, f64, usize)> {
    let mut caller = Caller::connect(port, "/mcp/steady")?;
    let session = caller.open()?;
    let span = Duration::from_secs(if bench.is_quick { 4 } else { 10 });
    let mut calls = 0;
    let mut phase = |which: u8| -> io::Result<f64> {
        mode.store(which, Ordering::SeqCst);
        // The first change of the server happens within this time.
        thread::sleep(Duration::from_secs(2));
        let (begun, mut times) = (Instant::now(), Vec::new());
        while begun.elapsed() < span {
            let sent = Instant::now();
            caller.echo(&session)?;
            times.push(sent.elapsed());
        }
        calls += times.len();
        let sample = Sample::try_new(times).ok_or_else(|| io::Error::other("nothing was measured"))?;
        Ok(sample.percentile_us(99))
    };
    let (mut ratios, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let without = phase(STEADY)?;
        ratios.push(phase(FLAPS)? / without);
        alone.push(without);
    }
    alone.sort_by(f64::total_cmp);
    Ok((ratios, alone[alone.len() / 2], calls))
}

/// Calls the server that flaps, with a pause after each call. Returns the number of answers.
fn call_the_other(port: u16, mode: &AtomicU8) -> usize {
    let mut answered = 0;
    let mut open: Option<(Caller, String)> = None;
    while mode.load(Ordering::SeqCst) != OVER {
        if open.is_none() {
            open = Caller::connect(port, "/mcp/flapping").and_then(|mut it| it.open().map(|id| (it, id))).ok();
        }
        // A call may fail while the server is away; its connection may not be usable then.
        if let Some((caller, session)) = &mut open {
            match caller.echo(session) {
                Ok(()) => answered += 1,
                Err(_) => open = None,
            }
        }
        thread::sleep(PAUSE);
    }
    answered
}

/// Runs the server, and while the mode says so, stops and starts it every second.
fn flap(port: u16, mode: &AtomicU8, is_up: &AtomicBool) -> io::Result<()> {
    let mut server: Option<Child> = None;
    loop {
        let mode = mode.load(Ordering::SeqCst);
        match server.take() {
            Some(mut running) if mode != STEADY => {
                running.kill()?;
                running.wait()?;
            }
            Some(running) => server = Some(running),
            None if mode == OVER => return Ok(()),
            None => {
                let mut upstream = Command::new(std::env::current_exe()?);
                upstream.args(["upstream", "--http", &port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::null());
                server = Some(upstream.spawn()?);
            }
        }
        is_up.store(server.is_some(), Ordering::SeqCst);
        thread::sleep(Duration::from_secs(1));
    }
}
