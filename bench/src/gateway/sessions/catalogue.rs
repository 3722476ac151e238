//! The time to the tools of a server that has not started yet.
//!
//! The first gateway fills the catalogue. The second one starts a server that waits for a file, as a server that takes
//! ten seconds does; handshake and list are answered meanwhile.

use std::fs;
use std::io;
use std::time::Instant;

use super::super::caller::{Caller, LIST};
use super::{Bench, PATH, Report};
use crate::sample::{Sample, micros};

const CLIENTS: usize = 50;

pub(super) fn measure(bench: &Bench, report: &mut Report) -> io::Result<()> {
    println!("a server that has not started");
    let gate = bench.folder.join("gate");
    fs::write(&gate, "")?;
    let mendline = bench.mendline.display().to_string();
    let wait = format!("wait-for={}", gate.display());
    let target = ["--", &mendline, "demo-server", "--fault", &wait].map(str::to_owned);
    let list = |caller: &mut Caller| {
        let session = caller.open()?;
        caller.send("POST", Some(&session), LIST)?;
        caller.receive(b"lookup")
    };
    let mut first = bench.gateway(&[], &target, None)?;
    first.connect()?;
    list(&mut Caller::connect(first.port(), PATH)?)?;
    first.stop()?;
    fs::remove_file(&gate)?;
    let gateway = bench.gateway(&[], &target, None)?;
    let mut times = Vec::new();
    gateway.wait_until_listening()?;
    for _ in 0..CLIENTS {
        let begun = Instant::now();
        list(&mut Caller::connect(gateway.port(), PATH)?)?;
        times.push(begun.elapsed());
    }
    let slowest_first = micros(times[0]) / 1000.0;
    let times = Sample::try_new(times).ok_or_else(|| io::Error::other("nothing was measured"))?;
    report.at_most("handshake and list from the catalogue, p50", times.percentile_us(50) / 1000.0, 5.0, "ms");
    Report::note("the same of the first client", slowest_first, "ms");
    Report::note("the same, slowest of 50", times.percentile_us(100) / 1000.0, "ms");
    Ok(())
}
