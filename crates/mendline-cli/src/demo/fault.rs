//! The faults of the demonstration, and one shift of work under each.
//!
//! A shift is a number of calls, reads and writes in turn, with one fault in the middle. What the server really did is read
//! from its ledger afterwards, not believed from anybody's answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::peer::{Peer, Reply};

/// Which call of a shift is hurt if it is a read, and if it is a write.
const HURT_READ: u32 = 5;
const HURT_WRITE: u32 = 6;

/// How long a hurt call would have taken, so that there is time to hurt it.
const EXPOSED_MS: u64 = 400;

/// One way to break a server.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    KilledBetweenCalls,
    KilledUnderARead,
    KilledUnderAWrite,
    DiedWithinALine,
}

impl Fault {
    pub(super) const ALL: [Fault; 4] =
        [Fault::KilledBetweenCalls, Fault::KilledUnderARead, Fault::KilledUnderAWrite, Fault::DiedWithinALine];

    pub(super) fn words(self) -> &'static str {
        match self {
            Fault::KilledBetweenCalls => "killed between two calls",
            Fault::KilledUnderARead => "killed while it reads",
            Fault::KilledUnderAWrite => "killed after it wrote, before it answered",
            Fault::DiedWithinALine => "died in the middle of an answer",
        }
    }

    /// How the server has to be started for this fault.
    pub(super) fn temper(self) -> Option<String> {
        match self {
            Fault::DiedWithinALine => Some(format!("partial-line={HURT_READ}")),
            _ => None,
        }
    }

    fn hurts(self, call: u32) -> bool {
        match self {
            Fault::KilledUnderARead | Fault::KilledBetweenCalls | Fault::DiedWithinALine => call == HURT_READ,
            Fault::KilledUnderAWrite => call == HURT_WRITE,
        }
    }
}

/// What a shift came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u32,
    pub(super) answered: u32,
    pub(super) may_have_run: u32,
    pub(super) failed: u32,
    pub(super) lost: u32,
    /// Writes that ran more than once.
    pub(super) twice: u32,
    /// Writes that were reported as done but did not run.
    pub(super) invented: u32,
    pub(super) slowest: Duration,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.calls += other.calls;
        self.answered += other.answered;
        self.may_have_run += other.may_have_run;
        self.failed += other.failed;
        self.lost += other.lost;
        self.twice += other.twice;
        self.invented += other.invented;
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Nothing was lost, done twice or made up, and the only calls that did not succeed are writes that were cut off.
    pub(super) fn is_whole(&self, cut_writes: u32) -> bool {
        self.lost == 0 && self.twice == 0 && self.invented == 0 && self.failed == 0 && self.may_have_run <= cut_writes
    }
}

/// What is shown while a shift goes on.
pub(super) enum Moment {
    Hurt,
    Done(Reply),
}

/// Does one shift through `command`, whose server keeps its ledger in `ledger`.
pub(super) fn shift(
    fault: Fault,
    calls: u32,
    pace: Duration,
    command: Command,
    ledger: &Path,
    mut show: impl FnMut(Moment),
) -> std::io::Result<Tally> {
    let mut peer = Peer::start(command)?;
    let mut tally = Tally { calls, ..Tally::default() };
    let mut reported = Vec::new();
    for call in 1..=calls {
        let tool = if call % 2 == 1 { "lookup" } else { "create_note" };
        let key = format!("k{call}");
        let mut arguments = json!({ "key": key });
        let mut killer = None;
        if fault.hurts(call) {
            show(Moment::Hurt);
            match fault {
                Fault::KilledBetweenCalls => kill_server(ledger),
                Fault::KilledUnderARead | Fault::KilledUnderAWrite => {
                    arguments["delayMs"] = EXPOSED_MS.into();
                    let (ledger, ran) = (ledger.to_owned(), format!("executed {tool} {key} "));
                    killer = Some(thread::spawn(move || kill_once_it_ran(&ledger, &ran)));
                }
                Fault::DiedWithinALine => {}
            }
        }
        let begin = Instant::now();
        let reply = peer.call(tool, &arguments);
        tally.slowest = tally.slowest.max(begin.elapsed());
        match reply {
            Reply::Answered => tally.answered += 1,
            Reply::MayHaveRun => tally.may_have_run += 1,
            Reply::Failed => tally.failed += 1,
            Reply::Lost => tally.lost += 1,
        }
        if reply == Reply::Answered && tool == "create_note" {
            reported.push(key);
        }
        show(Moment::Done(reply));
        if let Some(killer) = killer {
            let _ = killer.join();
        }
        thread::sleep(pace);
    }
    peer.finish();
    let notes = notes_written(ledger);
    tally.twice = u32::try_from(notes.values().filter(|times| **times > 1).count()).unwrap_or(u32::MAX);
    tally.invented = u32::try_from(reported.iter().filter(|key| !notes.contains_key(*key)).count()).unwrap_or(u32::MAX);
    Ok(tally)
}

/// How often each note was really written.
fn notes_written(ledger: &Path) -> BTreeMap<String, u32> {
    let mut notes = BTreeMap::new();
    for line in read(ledger).lines() {
        if let Some(key) = line.strip_prefix("executed create_note ").and_then(|rest| rest.split(' ').next()) {
            *notes.entry(key.to_owned()).or_insert(0) += 1;
        }
    }
    notes
}

fn kill_once_it_ran(ledger: &Path, ran: &str) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        if read(ledger).contains(ran) {
            kill_server(ledger);
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Kills the server that started last.
fn kill_server(ledger: &Path) {
    let text = read(ledger);
    let pid = text.lines().rev().find_map(|line| line.strip_prefix("start ")?.parse().ok());
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn read(ledger: &Path) -> String {
    std::fs::read_to_string(ledger).unwrap_or_default()
}
