//! Reload of the configuration file, while a server runs from it.
//!
//! The file is read when it has changed, and at SIGHUP. Valid changes take effect: policies at once, the endpoint when
//! no call is in flight. An invalid file changes nothing, and the log names the reason.

use std::path::Path;
use std::sync::Arc;

use mendline::decisions::port::Change;
use mendline::decisions::{Input, UpstreamConfig, UpstreamId};
use mendline::observe::log::{LogHandle, LogLevel};
use mendline::observe::redact::Redactor;
use mendline::transport::child::ChildCommand;
use mendline::transport::http::Target;
use mendline::transport::next::Next;
use mendline_config::{ConfigFile, Environment, Source, Watch, load};
use mendline_wire::Limits;

use crate::cli::RunOptions;
use crate::named::{Named, entry, log_findings};
use crate::plan::{Endpoint, Plan};

/// A server that runs from a file.
pub(crate) struct Reload {
    name: String,
    options: Arc<RunOptions>,
    found: ConfigFile,
    watch: Watch,
    /// The current plan.
    plan: Plan,
    /// The redactor of the log; it must know new secrets before they are used.
    redactor: Redactor,
}

/// Receiver of a changed endpoint.
pub(crate) enum ReloadTarget {
    Child(Next<ChildCommand>),
    Remote(Next<Target>),
}

impl Reload {
    pub(crate) fn new(name: &str, named: &Named, options: Arc<RunOptions>, redactor: Redactor) -> Reload {
        let watch = Watch::new(&named.found.path, named.loaded.source.text());
        let (found, plan) = (named.found.clone(), named.plan.clone());
        Reload { name: name.to_owned(), options, found, watch, plan, redactor }
    }

    /// Returns the path of the file.
    pub(crate) fn file(&self) -> &Path {
        &self.found.path
    }

    /// Checks the file for a change, and returns the input that follows from it.
    pub(crate) fn look(&mut self, target: &ReloadTarget, log: &LogHandle) -> Option<Input> {
        let source = self.watch.look()?;
        self.take(source, target, log)
    }

    /// Reads the file at SIGHUP.
    pub(crate) fn read(&mut self, target: &ReloadTarget, log: &LogHandle) -> Option<Input> {
        match self.watch.look_anew() {
            Some(source) => self.take(source, target, log),
            None => {
                let path = self.found.path.display();
                log.write(LogLevel::Error, &format!("{path} cannot be read; the old configuration stays"));
                None
            }
        }
    }

    fn take(&mut self, source: Source, target: &ReloadTarget, log: &LogHandle) -> Option<Input> {
        let loaded = load(source, self.found.is_ours, Environment::of_process());
        let path = loaded.source.path().display();
        let plan = match entry(&loaded, &self.name, &self.options.line()) {
            Ok(plan) => plan,
            Err(refusal) => {
                let obstacles = loaded.obstacles(&self.name);
                for finding in &obstacles {
                    log.write(LogLevel::Error, &finding.line(&loaded.source));
                }
                if obstacles.is_empty() {
                    let words = refusal.words.lines().next().unwrap_or_default();
                    log.write(LogLevel::Error, words.strip_prefix("error: ").unwrap_or(words));
                }
                log.write(LogLevel::Error, &format!("{path} is not used; the old configuration stays"));
                return None;
            }
        };
        self.redactor.learn(&plan.secrets());
        log_findings(&loaded, &self.name, log);
        let change = self.change(&plan, target, log)?;
        let config = Box::new(plan.upstream.clone());
        self.plan = plan;
        Some(Input::Reconfigure { upstream: UpstreamId(0), config, change })
    }

    /// Returns the kind of change, if there is one.
    fn change(&self, plan: &Plan, target: &ReloadTarget, log: &LogHandle) -> Option<Change> {
        let moved = plan.endpoint != self.plan.endpoint || plan.upstream.transport != self.plan.upstream.transport;
        if plan.limits != self.plan.limits {
            log.write(LogLevel::Warn, "`limits.messageBytes` takes effect after a restart of Mendline");
        }
        match (&plan.endpoint, target) {
            _ if !moved && is_alike(&plan.upstream, &self.plan.upstream) => {
                log.write(LogLevel::Debug, "the configuration file has changed, but nothing in it for this server");
                None
            }
            _ if !moved => Some(Change::Policies),
            (Endpoint::Child(command), ReloadTarget::Child(next)) => {
                next.put(command.clone());
                Some(Change::Transport)
            }
            (Endpoint::Remote(address), ReloadTarget::Remote(next)) => match address.target() {
                Ok(target) => {
                    next.put(target.limits(self.limits()));
                    Some(Change::Transport)
                }
                Err(complaint) => {
                    log.write(LogLevel::Error, &format!("{complaint}; the old configuration stays"));
                    None
                }
            },
            _ => {
                log.write(
                    LogLevel::Warn,
                    "the server has changed between a command and a URL: that takes effect after a restart of Mendline",
                );
                None
            }
        }
    }

    fn limits(&self) -> Limits {
        self.plan.limits.clone()
    }
}

/// Returns whether two configurations are equal, judged by their debug output.
fn is_alike(left: &UpstreamConfig, right: &UpstreamConfig) -> bool {
    format!("{left:?}") == format!("{right:?}")
}
