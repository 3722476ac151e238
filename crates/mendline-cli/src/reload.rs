//! Reload of the configuration file, while a server runs from it.
//!
//! The file is read when it has changed, and at SIGHUP. Valid changes take effect: policies at once, the endpoint when
//! no call is in flight. An invalid file changes nothing, and the log names the reason.

use std::sync::Arc;

use mendline::builder::ServerHandle;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::port::Change;
use mendline::input_queue::{InputQueue, Reconfiguration};
use mendline::observe::log::{LogHandle, LogLevel};
use mendline::observe::redact::Redactor;
use mendline_config::{Source, Watch};
use mendline_oauth::LoginUi;

use crate::cli::RunOptions;
use crate::external_inputs::WatchedFile;
use crate::named::{Named, NamedFile, entry, log_findings};
use crate::plan::Plan;

/// A server that runs from a file.
pub(crate) struct Reload {
    name: String,
    options: Arc<RunOptions>,
    file: NamedFile,
    watch: Watch,
    /// The current plan.
    plan: Plan,
    /// The redactor of the log; it must know new secrets before they are used.
    redactor: Redactor,
    /// The server in the engine.
    server: ServerHandle,
    /// The person at this desktop, if one is there.
    person: Option<Arc<dyn LoginUi>>,
    /// The queue for what follows from a change.
    inputs: Arc<InputQueue>,
}

impl WatchedFile for Reload {
    fn look(&mut self, log: &LogHandle) {
        if let Some(source) = self.watch.look() {
            self.pass_on(source, log);
        }
    }

    fn read(&mut self, log: &LogHandle) {
        match self.watch.look_anew() {
            Some(source) => self.pass_on(source, log),
            None => {
                let path = self.file.found.path.display();
                log.write(LogLevel::Error, &format!("{path} cannot be read; the old configuration stays"));
            }
        }
    }
}

impl Reload {
    pub(crate) fn new(
        named: Named,
        options: Arc<RunOptions>,
        redactor: Redactor,
        server: ServerHandle,
        person: Option<Arc<dyn LoginUi>>,
        inputs: Arc<InputQueue>,
    ) -> Reload {
        let watch = Watch::new(&named.file.found.path, named.loaded.source.text());
        let Named { file, plan, name, .. } = named;
        Reload { name, options, file, watch, plan, redactor, server, person, inputs }
    }

    fn pass_on(&mut self, source: Source, log: &LogHandle) {
        if let Some(change) = self.take(source, log) {
            self.inputs.push_change(change);
        }
    }

    fn take(&mut self, source: Source, log: &LogHandle) -> Option<Reconfiguration> {
        let loaded = self.file.load(source);
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
        let change = self.change(&plan, log)?;
        let config = Box::new(plan.upstream.clone());
        self.plan = plan;
        Some(Reconfiguration { upstream: self.server.id, config, change })
    }

    /// Returns the kind of change, if there is one.
    fn change(&self, plan: &Plan, log: &LogHandle) -> Option<Change> {
        let moved = plan.endpoint != self.plan.endpoint || plan.upstream.transport != self.plan.upstream.transport;
        if plan.limits != self.plan.limits {
            log.write(LogLevel::Warn, "`limits.messageBytes` takes effect after a restart of Mendline");
        }
        if !moved && is_alike(&plan.upstream, &self.plan.upstream) {
            log.write(LogLevel::Debug, "the configuration file has changed, but nothing in it for this server");
            return None;
        }
        if !moved {
            return Some(Change::Policies);
        }
        if !plan.endpoint.is_same_kind(&self.plan.endpoint) {
            log.write(
                LogLevel::Warn,
                "the server has changed between a command and a URL: that takes effect after a restart of Mendline",
            );
            return None;
        }
        let person = self.person.clone().filter(|_| plan.opens_browser());
        let source = plan.credential_source(self.redactor.clone(), person);
        match source.and_then(|source| Ok((plan.endpoint.open()?, source))) {
            Ok((endpoint, source)) => {
                self.server.next_source.put(source);
                self.server.next.put(endpoint);
                Some(Change::Transport)
            }
            Err(complaint) => {
                log.write(LogLevel::Error, &format!("{complaint}; the old configuration stays"));
                None
            }
        }
    }
}

/// Returns whether two configurations are equal, judged by their debug output.
pub(crate) fn is_alike(left: &UpstreamConfig, right: &UpstreamConfig) -> bool {
    format!("{left:?}") == format!("{right:?}")
}
