//! `mendline status --watch`: a live screen of all running servers, with keys to control them.
//!
//! There are three threads. This one handles keys and drawing, and never waits for a process; [`poll`] queries every
//! process and sends commands; [`follow`] receives events. Both report to the [`model`], which holds the state of the
//! screen and does no input or output, so that tests can drive it.
//!
//! - [`row`], [`events`], [`keys`]: the parts of the model; [`keyboard`]: bytes to keys;
//! - [`layout`], [`table`], [`detail`], [`paint`], [`view`]: drawing of the model;
//! - [`screen`], [`signals`]: the terminal and its modes, and signals.

mod detail;
mod events;
mod follow;
mod keyboard;
mod keys;
mod layout;
mod log;
mod model;
mod paint;
mod poll;
mod row;
mod screen;
mod signals;
mod table;
#[cfg(test)]
mod tests;
mod view;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use mendline::os::terminal::{read_input, wait_for_input};

use crate::cli::{NEGATIVE, USAGE};
use crate::policy_flags::duration;
use crate::style::Style;
use crate::target::ServerSelector;
use keyboard::Keyboard;
use model::{Action, Model, Update};
use paint::Paint;
use poll::PollRequest;
use screen::Screen;
use signals::ReceivedSignal;

/// Time limit of the wait for a key.
const TICK: Duration = Duration::from_millis(50);

/// Interval of redrawing without changes, because ages grow.
const REDRAW: Duration = Duration::from_secs(1);

/// Capacity of the channel to the screen.
const WAITING: usize = 1024;

/// Limits of the polling interval.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(3600);

/// Options of the live screen.
#[derive(Args)]
pub(crate) struct WatchOptions {
    /// Show a live screen, with events and keys to reconnect, isolate and follow the log
    #[arg(long, short, conflicts_with_all = ["json", "probe"])]
    watch: bool,

    /// Polling interval of the live screen
    #[arg(long, value_name = "DURATION", value_parser = interval, default_value = "1s", requires = "watch")]
    interval: Duration,
}

impl WatchOptions {
    pub(crate) fn is_wanted(&self) -> bool {
        self.watch
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    match (OFTEN..=SELDOM).contains(&interval) {
        true => Ok(interval),
        false => Err("it must be between 100ms and 1h".to_owned()),
    }
}

/// Shows the live screen until it is closed.
pub(crate) fn run(options: &WatchOptions, name: Option<&str>) -> ExitCode {
    if let Some(why) = screen::refusal() {
        eprintln!("error: --watch needs a terminal, and {why}");
        eprintln!("\nWithout one, `mendline status` prints a table and `mendline status --json` everything.");
        return ExitCode::from(USAGE);
    }
    match watch(options.interval, name.map(ServerSelector::parse)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The terminal may be half set up. If it is gone, the error cannot be shown.
            screen::restore();
            let _ = writeln!(io::stderr(), "error: the terminal cannot be used: {error}");
            ExitCode::from(NEGATIVE)
        }
    }
}

fn watch(interval: Duration, only: Option<ServerSelector>) -> io::Result<()> {
    let (sender, signals) = channel();
    let (report, updates) = sync_channel(WAITING);
    signals::listen(sender)?;
    let requests = poll::start(interval, report.clone())?;
    follow::start(report)?;
    let screen = Screen::open(Paint { is_coloured: Style::for_stdout().is_coloured() })?;
    let model = Model::new(screen::size(), only);
    Watch { screen, model, keyboard: Keyboard::default(), updates, signals, requests, expects_continue: false }.run()
}

/// The state of this thread.
struct Watch {
    screen: Screen,
    model: Model,
    keyboard: Keyboard,
    updates: Receiver<Update>,
    signals: Receiver<ReceivedSignal>,
    requests: Sender<PollRequest>,
    /// True after we stopped ourselves and took the terminal again: the SIGCONT that follows is expected.
    expects_continue: bool,
}

/// Continuation of the loop.
#[derive(PartialEq, Eq)]
enum LoopAction {
    Continue,
    Exit,
}

impl Watch {
    fn run(mut self) -> io::Result<()> {
        let mut drawn = Instant::now();
        self.screen.draw(&mut self.model)?;
        loop {
            let keys = self.wait_for_keys()?;
            let mut has_changed = !keys.is_empty();
            for key in keys {
                let action = self.model.press(key);
                if self.perform(action)? == LoopAction::Exit {
                    return Ok(());
                }
            }
            while let Ok(signal) = self.signals.try_recv() {
                has_changed = true;
                if self.handle_signal(signal)? == LoopAction::Exit {
                    return Ok(());
                }
            }
            has_changed |= self.catch_up() || screen::size() != self.model.size || drawn.elapsed() >= REDRAW;
            if has_changed {
                self.model.tick(poll::now());
                self.screen.draw(&mut self.model)?;
                drawn = Instant::now();
            }
        }
    }

    /// Returns the keys that arrive within a tick.
    fn wait_for_keys(&mut self) -> io::Result<Vec<keyboard::Key>> {
        match wait_for_input(TICK) {
            Ok(true) => {}
            Ok(false) => return Ok(self.keyboard.rest().into_iter().collect()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let mut bytes = [0; 1024];
        match read_input(&mut bytes)? {
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is closed")),
            Some(count) => Ok(self.keyboard.feed(&bytes[..count])),
        }
    }

    /// Applies everything that was reported. Returns whether there was anything.
    fn catch_up(&mut self) -> bool {
        // Bounded, so that fast reports do not block the keys.
        let reported: Vec<Update> = self.updates.try_iter().take(WAITING).collect();
        let has_any = !reported.is_empty();
        self.model.take_all(reported);
        has_any
    }

    fn perform(&mut self, action: Option<Action>) -> io::Result<LoopAction> {
        match action {
            None => {}
            Some(Action::Quit) => return Ok(LoopAction::Exit),
            Some(Action::Suspend) => self.suspend()?,
            Some(Action::Redraw) => {
                self.screen.reopen()?;
                self.send_request(PollRequest::Poll);
            }
            Some(Action::Command(command)) => self.send_request(PollRequest::Command(command)),
            Some(Action::Log(name)) => return self.show_log(&name),
        }
        Ok(LoopAction::Continue)
    }

    fn handle_signal(&mut self, signal: ReceivedSignal) -> io::Result<LoopAction> {
        match signal {
            ReceivedSignal::Interrupt | ReceivedSignal::Stop => return Ok(LoopAction::Exit),
            ReceivedSignal::Suspend => self.suspend()?,
            ReceivedSignal::Continued if std::mem::take(&mut self.expects_continue) => {}
            // The terminal may be in any state after a stop.
            ReceivedSignal::Continued => self.screen.reopen()?,
        }
        Ok(LoopAction::Continue)
    }

    fn send_request(&mut self, request: PollRequest) {
        if self.requests.send(request).is_err() {
            self.model.say("the polling thread has ended; please start again".to_owned(), true);
        }
    }

    fn suspend(&mut self) -> io::Result<()> {
        self.screen.suspend();
        let has_stopped = screen::stop();
        self.screen.reopen()?;
        self.expects_continue |= has_stopped;
        if !has_stopped {
            self.model.say("there is no shell to suspend to".to_owned(), false);
        }
        Ok(())
    }
}
