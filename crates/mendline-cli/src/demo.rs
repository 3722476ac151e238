//! `mendline demo`: the same calls under the same faults, once plainly and once through Mendline.
//!
//! Both sides are real processes: the plain client talks to a demo server, the other to `mendline run` around an equal one,
//! and the servers are really killed. Everything that is printed was counted here, from the replies and from the servers'
//! own ledgers. The exit code is 0 only if, through Mendline, nothing was lost, nothing ran twice and nothing was made up.

mod fault;
mod peer;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use fault::{Fault, Moment, Tally, shift};
use peer::Reply;

use crate::cli::{DemoOptions, NEGATIVE};
use crate::demo_server::LEDGER;
use crate::ink::Ink;

/// How long the eye gets for each call.
const PACE: Duration = Duration::from_millis(40);

/// Shows everything.
pub(crate) fn run(options: &DemoOptions) -> ExitCode {
    match Workshop::new().and_then(|workshop| show(&workshop, options.calls)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NEGATIVE),
        Err(error) => {
            eprintln!("error: the demonstration could not run: {error}");
            ExitCode::from(NEGATIVE)
        }
    }
}

fn show(workshop: &Workshop, calls: u32) -> std::io::Result<bool> {
    let ink = Ink::for_stdout();
    println!("{}", ink.bold("The same calls, the same faults, side by side."));
    println!("{}", ink.faint("  plain     client ─────────────────── server"));
    println!("{}", ink.faint("  mendline  client ── mendline run ─── server"));
    println!();
    println!(
        "  {} answered   {} told that it may have run   {} lost   {} the server is hit",
        mark(ink, Reply::Answered),
        mark(ink, Reply::MayHaveRun),
        mark(ink, Reply::Lost),
        hit(ink)
    );
    let mut rows = Vec::new();
    for fault in Fault::ALL {
        println!("\n{}", ink.bold(fault.words()));
        let plain = one_side(workshop, fault, calls, Side::Plain, ink)?;
        let mended = one_side(workshop, fault, calls, Side::Mended, ink)?;
        rows.push((fault, plain, mended));
    }
    Ok(table(&rows, ink))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Plain,
    Mended,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Side::Plain => "plain",
            Side::Mended => "mendline",
        }
    }
}

fn one_side(workshop: &Workshop, fault: Fault, calls: u32, side: Side, ink: Ink) -> std::io::Result<Tally> {
    let ledger = workshop.ledger(fault, side);
    let command = workshop.command(fault, side, &ledger)?;
    print!("  {:<9} ", side.word());
    let tally = shift(fault, calls, PACE, command, &ledger, |moment| {
        match moment {
            Moment::Hurt => print!("{}", hit(ink)),
            Moment::Done(reply) => print!("{}", mark(ink, reply)),
        }
        let _ = std::io::stdout().flush();
    })?;
    let slowest = format!("slowest {} ms", tally.slowest.as_millis());
    println!("  {}", ink.faint(&slowest));
    Ok(tally)
}

/// Prints the closing table, and says whether Mendline kept its word.
fn table(rows: &[(Fault, Tally, Tally)], ink: Ink) -> bool {
    let (mut plain_all, mut mended_all) = (Tally::default(), Tally::default());
    let rule = "─".repeat(104);
    println!("\n  {:<42} {:<26} through Mendline", "fault", "plain client");
    println!("  {}", ink.faint(&rule));
    for (fault, plain, mended) in rows {
        println!("  {:<42} {:<26} {}", fault.words(), result(plain), result(mended));
        plain_all.add(plain);
        mended_all.add(mended);
    }
    println!("  {}", ink.faint(&rule));
    println!("  {:<42} {:<26} {}", "in all", result(&plain_all), result(&mended_all));
    println!("  {:<42} {:<26} {}", "writes that ran twice", plain_all.twice, mended_all.twice);
    println!("  {:<42} {:<26} {}", "writes reported that never ran", plain_all.invented, mended_all.invented);
    let cut_writes = rows.iter().filter(|(fault, ..)| matches!(fault, Fault::KilledUnderAWrite)).count();
    let whole = mended_all.is_whole(u32::try_from(cut_writes).unwrap_or(u32::MAX));
    let verdict = if whole {
        ink.paint("1;32", "Nothing was lost, nothing ran twice. What could not be known was said.")
    } else {
        ink.paint("1;31", "Mendline did not keep its word here. Please report this.")
    };
    println!("\n  {verdict}");
    whole
}

fn result(tally: &Tally) -> String {
    let mut words = format!("{} of {}", tally.answered, tally.calls);
    for (count, what) in [(tally.may_have_run, "told"), (tally.failed, "failed"), (tally.lost, "lost")] {
        if count > 0 {
            words += &format!(", {count} {what}");
        }
    }
    words
}

/// Where the servers keep their ledgers; gone afterwards.
struct Workshop {
    folder: PathBuf,
    program: PathBuf,
}

impl Workshop {
    fn new() -> std::io::Result<Workshop> {
        let folder = std::env::temp_dir().join(format!("mendline-demo-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Workshop { folder, program: std::env::current_exe()? })
    }

    fn ledger(&self, fault: Fault, side: Side) -> PathBuf {
        self.folder.join(format!("{}-{}", side.word(), fault.words().replace([' ', ','], "-")))
    }

    fn command(&self, fault: Fault, side: Side, ledger: &Path) -> std::io::Result<Command> {
        std::fs::write(ledger, "")?;
        let mut command = Command::new(&self.program);
        if side == Side::Mended {
            command
                .args([
                    "run",
                    "--name",
                    "demo",
                    "--log-level",
                    "off",
                    "--no-log-files",
                    "--no-catalogue",
                    "--startup",
                    "wait",
                    "--",
                ])
                .arg(&self.program);
        }
        command.arg("demo-server").env(LEDGER, ledger);
        if let Some(temper) = fault.temper() {
            command.arg("--temper").arg(temper);
        }
        Ok(command)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// How a reply looks.
fn mark(ink: Ink, reply: Reply) -> String {
    match reply {
        Reply::Answered => ink.green("●"),
        Reply::MayHaveRun => ink.yellow("?"),
        Reply::Failed => ink.red("!"),
        Reply::Lost => ink.red("✗"),
    }
}

/// How a fault looks.
fn hit(ink: Ink) -> String {
    ink.paint("1;33", "⚡")
}
