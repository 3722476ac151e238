//! Says on stderr, to whoever waits for an answer, that a server is being mended.
//!
//! A person who waits wants to know what for. Each reason is said once and not at every try.

use mendline::decisions::event::LinkState;
use mendline::decisions::{Event, UpstreamId};
use mendline::driver::Observer;

use crate::ink::Ink;
use crate::outside::one_line;
use crate::progress::Screen;

/// Tells a person.
pub(crate) struct Reporter {
    name: String,
    ink: Ink,
    screen: Screen,
    last: String,
}

impl Reporter {
    /// For the server of this name.
    pub(crate) fn new(name: &str) -> Reporter {
        Reporter { name: one_line(name), ink: Ink::for_stderr(), screen: Screen::default(), last: String::new() }
    }

    /// Shares the line that somebody else draws on.
    pub(crate) fn on(mut self, screen: &Screen) -> Reporter {
        self.screen = screen.clone();
        self
    }

    fn say(&mut self, words: String) {
        if words == self.last {
            return;
        }
        self.screen.say(&self.ink.faint(&format!("{}: {words}", self.name)));
        self.last = words;
    }
}

impl Observer for Reporter {
    fn happened(&mut self, event: &Event) {
        match event {
            Event::LinkMoved { to: LinkState::Waiting, why, .. } => {
                self.say(format!("{}; trying again", one_line(why)));
            }
            Event::CallRetried { attempt, .. } => self.say(format!("sent again, attempt {attempt}")),
            Event::Paused { wait, .. } => {
                let wait = humantime::format_duration(std::time::Duration::from_secs(wait.as_secs().max(1)));
                self.say(format!("the server asks to be left alone for {wait}"));
            }
            _ => {}
        }
    }

    fn said(&mut self, _upstream: UpstreamId, _line: &[u8]) {}
}
