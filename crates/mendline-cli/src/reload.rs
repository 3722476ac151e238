//! The configuration file again, while a server is run from it.
//!
//! It is read when it has changed, and when somebody sends SIGHUP. What can be used takes effect: policies at once, the way to
//! the server when no call is with it. What cannot be used changes nothing, and the log says why: a running server is worth
//! more than a file that is being edited.

use std::path::Path;
use std::sync::Arc;

use mendline::decisions::port::Change;
use mendline::decisions::{Input, UpstreamConfig, UpstreamId};
use mendline::observe::log::{LogLevel, Pen};
use mendline::observe::redact::Redactor;
use mendline::transport::child::ChildCommand;
use mendline::transport::http::Target;
use mendline::transport::next::Next;
use mendline_config::{Found, Source, Surroundings, Watch, load};
use mendline_wire::Limits;

use crate::cli::RunOptions;
use crate::named::{Named, entry, mention};
use crate::plan::{Plan, Way};

/// A server that is run from a file.
pub(crate) struct Reload {
    name: String,
    options: Arc<RunOptions>,
    found: Found,
    watch: Watch,
    /// What holds now.
    plan: Plan,
    /// What hides secrets in the log; new ones must be known to it before they are used.
    redactor: Redactor,
}

/// Where the way to the server is put when it changes.
pub(crate) enum Door {
    Child(Next<ChildCommand>),
    Remote(Next<Target>),
}

impl Reload {
    pub(crate) fn new(name: &str, named: &Named, options: Arc<RunOptions>, redactor: Redactor) -> Reload {
        let watch = Watch::new(&named.found.path, named.loaded.source.text());
        let (found, plan) = (named.found.clone(), named.plan.clone());
        Reload { name: name.to_owned(), options, found, watch, plan, redactor }
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.found.path
    }

    /// Looks whether the file has changed; says what follows from that.
    pub(crate) fn look(&mut self, door: &Door, log: &Pen) -> Option<Input> {
        let source = self.watch.look()?;
        self.take(source, door, log)
    }

    /// Reads the file because somebody asked for it.
    pub(crate) fn read(&mut self, door: &Door, log: &Pen) -> Option<Input> {
        match self.watch.look_anew() {
            Some(source) => self.take(source, door, log),
            None => {
                let path = self.found.path.display();
                log.say(LogLevel::Error, &format!("{path} cannot be read; the old configuration stays"));
                None
            }
        }
    }

    fn take(&mut self, source: Source, door: &Door, log: &Pen) -> Option<Input> {
        let loaded = load(source, self.found.is_ours, Surroundings::of_process());
        let path = loaded.source.path().display();
        let plan = match entry(&loaded, &self.name, &self.options.line()) {
            Ok(plan) => plan,
            Err(refusal) => {
                let obstacles = loaded.obstacles(&self.name);
                for finding in &obstacles {
                    log.say(LogLevel::Error, &finding.line(&loaded.source));
                }
                if obstacles.is_empty() {
                    let words = refusal.words.lines().next().unwrap_or_default();
                    log.say(LogLevel::Error, words.strip_prefix("error: ").unwrap_or(words));
                }
                log.say(LogLevel::Error, &format!("{path} was not taken over; the old configuration stays"));
                return None;
            }
        };
        self.redactor.learn(&plan.secrets());
        mention(&loaded, &self.name, log);
        let change = self.change(&plan, door, log)?;
        let config = Box::new(plan.upstream.clone());
        self.plan = plan;
        Some(Input::Reconfigure { upstream: UpstreamId(0), config, change })
    }

    /// How much is different, if anything is.
    fn change(&self, plan: &Plan, door: &Door, log: &Pen) -> Option<Change> {
        let moved = plan.way != self.plan.way || plan.upstream.transport != self.plan.upstream.transport;
        if plan.limits != self.plan.limits {
            log.say(LogLevel::Warn, "`limits.messageBytes` takes effect when Mendline is started again");
        }
        match (&plan.way, door) {
            _ if !moved && is_alike(&plan.upstream, &self.plan.upstream) => {
                log.say(LogLevel::Debug, "the configuration file has changed, but nothing in it for this server");
                None
            }
            _ if !moved => Some(Change::Policies),
            (Way::Child(command), Door::Child(next)) => {
                next.put(command.clone());
                Some(Change::Way)
            }
            (Way::Remote(address), Door::Remote(next)) => match address.target() {
                Ok(target) => {
                    next.put(target.limits(self.limits()));
                    Some(Change::Way)
                }
                Err(complaint) => {
                    log.say(LogLevel::Error, &format!("{complaint}; the old configuration stays"));
                    None
                }
            },
            _ => {
                log.say(
                    LogLevel::Warn,
                    "a command has become a URL, or a URL a command: that takes effect when Mendline is started again",
                );
                None
            }
        }
    }

    fn limits(&self) -> Limits {
        self.plan.limits.clone()
    }
}

/// Do the same policies hold? Every one of them shows in its text.
fn is_alike(left: &UpstreamConfig, right: &UpstreamConfig) -> bool {
    format!("{left:?}") == format!("{right:?}")
}
