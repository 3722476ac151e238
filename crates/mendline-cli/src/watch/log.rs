//! The log of one server, in place of the live screen.
//!
//! It runs this program as `mendline logs NAME -f`; Ctrl-C ends that and returns. The screen keeps receiving events
//! meanwhile, so that none pile up, and a signal that ends the screen ends the log, too.

use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus};
use std::thread;

use clap::CommandFactory;
use mendline::os::processes::terminate;
use mendline::os::terminal::{read_input, wait_for_input};

use super::signals::ReceivedSignal;
use super::{LoopAction, TICK, Watch};
use crate::cli::Cli;
use crate::untrusted_text::one_line;

impl Watch {
    /// Shows the log of this server until it is closed.
    pub(super) fn show_log(&mut self, name: &str) -> io::Result<LoopAction> {
        if Cli::command().find_subcommand("logs").is_none() {
            self.model.say("this mendline has no command `logs`".to_owned(), true);
            return Ok(LoopAction::Continue);
        }
        self.screen.suspend();
        writeln!(io::stdout(), "Log of {}; Ctrl-C returns.", one_line(name))?;
        let begun = std::env::current_exe().and_then(|own| Command::new(own).args(["logs", "-f", "--", name]).spawn());
        let next = match begun {
            Ok(child) => self.wait_for(child)?,
            Err(error) => {
                self.model.say(format!("the log cannot be shown: {error}"), true);
                LoopAction::Continue
            }
        };
        if next == LoopAction::Continue {
            self.screen.reopen()?;
        }
        Ok(next)
    }

    fn wait_for(&mut self, mut child: Child) -> io::Result<LoopAction> {
        let mut is_enough = false;
        loop {
            let ended = child.try_wait()?;
            while let Ok(signal) = self.signals.try_recv() {
                match signal {
                    // The signal was for both processes: return, whatever the log prints.
                    ReceivedSignal::Interrupt => is_enough = true,
                    ReceivedSignal::Stop => {
                        end(&mut child);
                        return Ok(LoopAction::Exit);
                    }
                    ReceivedSignal::Suspend | ReceivedSignal::Continued => {}
                }
            }
            match ended {
                Some(_) if is_enough => return Ok(LoopAction::Continue),
                Some(ended) => return self.after(ended),
                None => {}
            }
            self.catch_up();
            thread::sleep(TICK);
        }
    }

    /// Waits for Enter after an error, so that its message can be read.
    fn after(&mut self, ended: ExitStatus) -> io::Result<LoopAction> {
        if ended.code().is_none_or(|code| code == 0 || code == INTERRUPTED) {
            return Ok(LoopAction::Continue);
        }
        write!(io::stdout(), "\nEnter returns to the live screen. ")?;
        io::stdout().flush()?;
        loop {
            if matches!(wait_for_input(TICK), Ok(true)) {
                // A whole line: the terminal is in its normal mode.
                let _ = read_input(&mut [0; 1024]);
                return Ok(LoopAction::Continue);
            }
            match self.signals.try_recv() {
                Ok(ReceivedSignal::Stop) => return Ok(LoopAction::Exit),
                Ok(ReceivedSignal::Interrupt) => return Ok(LoopAction::Continue),
                _ => {}
            }
            self.catch_up();
        }
    }
}

/// The exit code of an interrupted process, as shells use it.
const INTERRUPTED: i32 = 130;

fn end(child: &mut Child) {
    // The process may have ended already.
    terminate(child.id());
    let _ = child.wait();
}
