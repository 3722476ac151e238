//! `mendline demo`: the same calls under the same faults at the same time, by a plain client and through Mendline.
//!
//! Both sides are real processes: the plain client uses a demo server, as a child or at a URL, and the other one uses
//! `mendline run` with an equal server. The servers are really killed, disconnected and made to lose sessions. All
//! printed numbers are counted from the replies and from the servers' ledgers. The exit code is 0 only if, through
//! Mendline, no call was lost, no write ran twice and no write was invented.

mod client;
mod counts;
mod fault;
mod run;
mod screen;
mod stop;
mod table;
mod testbed;

use std::io::{ErrorKind, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use clap::Args;
use fault::Fault;
use run::{Mark, Report, run_calls};
use screen::Screen;
use table::{Row, table};
use testbed::{Side, Workspace};

use crate::cli::NEGATIVE;
use crate::prose::folded;
use crate::style::{Style, width};
use crate::{invocation, output};

/// Exit code of an interrupted demo.
const STOPPED: u8 = NEGATIVE;

const EXAMPLES: &str = "\
Examples:
  mendline demo                 about twenty seconds, and a table
  mendline demo --calls 50      more calls under each fault
  NO_COLOR=1 mendline demo      without colours; a pipe gets plain lines too

Next: `mendline wrap --dry-run` shows the changes for your own clients.
Exit codes: 0 no call was lost, run twice or invented; 1 otherwise, or interrupted.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoOptions {
    /// Number of calls under each fault
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(8..=1000))]
    calls: u32,
}

/// Runs `mendline demo`.
pub(crate) fn run(options: &DemoOptions) -> ExitCode {
    let shown = stop::listen().and_then(|()| Workspace::new()).and_then(|workspace| show(&workspace, options.calls));
    match shown {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NEGATIVE),
        // A closed reader is no error; any other failed write is reported at the end.
        Err(_) if output::has_failed() => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            eprintln!("stopped; all processes and files of the demo are removed");
            ExitCode::from(STOPPED)
        }
        Err(error) => {
            eprintln!("error: the demo cannot run: {error}");
            ExitCode::from(NEGATIVE)
        }
    }
}

fn show(workspace: &Workspace, calls: u32) -> std::io::Result<bool> {
    let begin = Instant::now();
    let style = Style::for_stdout();
    let mut screen = Screen::new(style, std::io::stdout().is_terminal(), width());
    screen.introduce();
    let (mut rows, mut unknown_answers) = (Vec::new(), Vec::new());
    for (number, fault) in (1..).zip(Fault::ALL) {
        screen.begin(fault, number);
        let [plain, mended] = both_sides(workspace, fault, calls, &mut screen)?;
        screen.finish();
        unknown_answers.extend(mended.unknown_answers);
        rows.push(Row { fault, plain: plain.counts, mended: mended.counts });
    }
    let (lines, passed) = table(&rows, style, screen.width());
    screen.line("");
    lines.iter().for_each(|line| screen.line(line));
    if !unknown_answers.is_empty() {
        screen.line("\n  Answers to calls with an unknown outcome, as a model reads them:");
        for line in unknown_answers.iter().flat_map(|words| folded("  - ", words, screen.width().min(100))) {
            screen.line(&line);
        }
    }
    screen.line("");
    verdict(passed)
        .iter()
        .for_each(|line| screen.line(&format!("  {}", style.paint(if passed { "1;32" } else { "1;31" }, line))));
    let took = format!("  {:.0} s. Next, to see the changes for your own clients:", begin.elapsed().as_secs_f32());
    screen.line(&style.faint(&took));
    screen.line(&format!("    {} wrap --dry-run", invocation::program()));
    Ok(passed)
}

/// Runs one fault on both sides at once.
fn both_sides(workspace: &Workspace, fault: Fault, calls: u32, screen: &mut Screen) -> std::io::Result<[Report; 2]> {
    let (sender, marks) = channel::<(Side, Mark)>();
    let reports = thread::scope(|scope| {
        let sides = Side::BOTH.map(|side| {
            let sender = sender.clone();
            scope.spawn(move || {
                run_calls(workspace, fault, side, calls, |mark| {
                    // The receiver outlives both sides.
                    let _ = sender.send((side, mark));
                })
            })
        });
        drop(sender);
        for (side, mark) in marks {
            screen.add_mark(side, mark);
        }
        sides.map(|side| side.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread of the demo panicked"))))
    });
    if stop::is_wanted() {
        return Err(ErrorKind::Interrupted.into());
    }
    let [plain, mended] = reports;
    let reports = [plain?, mended?];
    for (side, report) in Side::BOTH.into_iter().zip(&reports) {
        screen.end(side, &report.counts);
    }
    Ok(reports)
}

fn verdict(passed: bool) -> [&'static str; 2] {
    if passed {
        [
            "No call was lost, no write ran twice, no write was invented.",
            "Every unknown outcome was reported as unknown.",
        ]
    } else {
        ["Mendline lost, repeated or invented a call.", "Please report this with the table."]
    }
}
