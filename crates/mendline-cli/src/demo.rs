//! `mendline demo`: the same calls under the same faults at the same time, once plainly and once through Mendline.
//!
//! Both sides are real processes: the plain client talks to a demo server, as a child or at a URL, the other to `mendline
//! run` before an equal one, and the servers are really killed, cut off and made to forget. Everything that is printed was
//! counted here, from the replies and from the servers' own ledgers. The exit code is 0 only if, through Mendline, nothing
//! was lost, nothing ran twice and nothing was made up.

mod fault;
mod peer;
mod screen;
mod shift;
mod stage;
mod stop;
mod table;
mod tally;

use std::io::{ErrorKind, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use clap::Args;
use fault::Fault;
use screen::Screen;
use shift::{Moment, Report, shift};
use stage::{Side, Workshop};
use table::{Row, table};

use crate::cli::NEGATIVE;
use crate::ink::{Ink, width};
use crate::output;
use crate::prose::folded;

/// What we end with when somebody did not want to see the rest.
const STOPPED: u8 = NEGATIVE;

const EXAMPLES: &str = "\
Examples:
  mendline demo                 about twenty seconds, and a table
  mendline demo --calls 50      more calls under each fault
  NO_COLOR=1 mendline demo      without colours; a pipe gets plain lines too

Next: `mendline wrap --dry-run` shows what it would take for your own clients.
Exit codes: 0 nothing was lost, run twice or made up; 1 something was, or it was stopped.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoOptions {
    /// How many calls are made under each fault
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(8..=1000))]
    calls: u32,
}

/// Shows everything.
pub(crate) fn run(options: &DemoOptions) -> ExitCode {
    let shown = stop::listen().and_then(|()| Workshop::new()).and_then(|workshop| show(&workshop, options.calls));
    match shown {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NEGATIVE),
        // A reader that has gone has seen enough; any other failed write is reported at the end.
        Err(_) if output::has_failed() => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            eprintln!("stopped; every process and file of the demonstration is gone");
            ExitCode::from(STOPPED)
        }
        Err(error) => {
            eprintln!("error: the demonstration could not run: {error}");
            ExitCode::from(NEGATIVE)
        }
    }
}

fn show(workshop: &Workshop, calls: u32) -> std::io::Result<bool> {
    let begin = Instant::now();
    let ink = Ink::for_stdout();
    let mut screen = Screen::new(ink, std::io::stdout().is_terminal(), width());
    screen.introduce();
    let (mut rows, mut told) = (Vec::new(), Vec::new());
    for (number, fault) in (1..).zip(Fault::ALL) {
        screen.begin(fault, number);
        let [plain, mended] = both_sides(workshop, fault, calls, &mut screen)?;
        screen.finish();
        told.extend(mended.told);
        rows.push(Row { fault, plain: plain.tally, mended: mended.tally });
    }
    let (lines, is_whole) = table(&rows, ink, screen.width());
    screen.line("");
    lines.iter().for_each(|line| screen.line(line));
    if !told.is_empty() {
        screen.line("\n  What a model read where nobody can know:");
        for line in told.iter().flat_map(|words| folded("  - ", words, screen.width().min(100))) {
            screen.line(&line);
        }
    }
    screen.line("");
    verdict(is_whole)
        .iter()
        .for_each(|line| screen.line(&format!("  {}", ink.paint(if is_whole { "1;32" } else { "1;31" }, line))));
    let next =
        format!("  {:.0} s. Next: mendline wrap --dry-run   for your own clients", begin.elapsed().as_secs_f32());
    screen.line(&ink.faint(&next));
    Ok(is_whole)
}

/// A shift on either side, both at once.
fn both_sides(workshop: &Workshop, fault: Fault, calls: u32, screen: &mut Screen) -> std::io::Result<[Report; 2]> {
    let (sender, moments) = channel::<(Side, Moment)>();
    let reports = thread::scope(|scope| {
        let sides = Side::BOTH.map(|side| {
            let sender = sender.clone();
            scope.spawn(move || {
                shift(workshop, fault, side, calls, |moment| {
                    // The screen outlasts both sides.
                    let _ = sender.send((side, moment));
                })
            })
        });
        drop(sender);
        for (side, moment) in moments {
            screen.mark_down(side, moment);
        }
        sides.map(|side| side.join().unwrap_or_else(|_| Err(std::io::Error::other("one side fell over"))))
    });
    if stop::is_wanted() {
        return Err(ErrorKind::Interrupted.into());
    }
    let [plain, mended] = reports;
    let reports = [plain?, mended?];
    for (side, report) in Side::BOTH.into_iter().zip(&reports) {
        screen.end(side, &report.tally);
    }
    Ok(reports)
}

fn verdict(is_whole: bool) -> [&'static str; 2] {
    if is_whole {
        ["Nothing was lost, nothing ran twice, nothing was made up.", "What could not be known was said."]
    } else {
        ["Mendline did not keep its word here.", "Please report this, with the table."]
    }
}
