//! Messages on stderr while a server recovers.
//!
//! Each reason is printed once, not at every attempt.

use mendline::decisions::event::LinkState;
use mendline::decisions::{Event, UpstreamId};
use mendline::driver::{At, Observer};

use crate::progress::ProgressLine;
use crate::style::Style;
use crate::untrusted_text::one_line;

/// Prints the recovery of a server.
pub(crate) struct Reporter {
    name: String,
    style: Style,
    progress_line: ProgressLine,
    last: String,
}

impl Reporter {
    /// Creates a reporter for the server with this name.
    pub(crate) fn new(name: &str) -> Reporter {
        Reporter {
            name: one_line(name),
            style: Style::for_stderr(),
            progress_line: ProgressLine::default(),
            last: String::new(),
        }
    }

    /// Shares a progress line.
    pub(crate) fn on(mut self, progress_line: &ProgressLine) -> Reporter {
        self.progress_line = progress_line.clone();
        self
    }

    fn print_once(&mut self, words: String) {
        if words == self.last {
            return;
        }
        self.progress_line.print(&self.style.faint(&format!("{}: {words}", self.name)));
        self.last = words;
    }
}

impl Observer for Reporter {
    fn on_event(&mut self, event: &Event, _: At) {
        match event {
            Event::LinkStateChanged { to: LinkState::Waiting, why: Some(why), .. } => {
                self.print_once(format!("{}; reconnecting", one_line(&why.to_string())));
            }
            // The renewal of a credential is not worth a line; if it fails, the error says so.
            Event::CallRetried { why, .. } if why.is_about_credential() || why.status() == Some(401) => {}
            Event::CallRetried { attempt, .. } => self.print_once(format!("sent again, attempt {attempt}")),
            Event::Paused { wait, hint, .. } => {
                let wait = humantime::format_duration(std::time::Duration::from_secs(wait.as_secs().max(1)));
                self.print_once(match hint {
                    Some(_) => format!("the server asks for a pause of {wait}"),
                    None => format!("the server is overloaded; waiting {wait}"),
                });
            }
            _ => {}
        }
    }

    fn on_stderr(&mut self, _upstream: UpstreamId, _line: &[u8]) {}
}
