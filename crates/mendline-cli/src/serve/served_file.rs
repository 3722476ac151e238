//! Reload of the configuration file of a gateway: servers are added, removed and changed.
//!
//! The file is read when it has changed, and at SIGHUP. A file with a mistake is not used at all, so that a half-written
//! edit removes no server; the log names the mistakes. Sessions of servers that have not changed are not touched.

use std::path::PathBuf;
use std::sync::Arc;

use mendline::builder::{NewServer, ServerHandle};
use mendline::catalogue::CatalogueFile;
use mendline::decisions::UpstreamConfig;
use mendline::decisions::port::Change;
use mendline::frontend::http::{Gateway, GatewayServer, ServerPool};
use mendline::input_queue::{InputQueue, Reconfiguration};
use mendline::observe::log::{LogHandle, LogLevel};
use mendline::observe::redact::Redactor;
use mendline_config::{AccessSettings, Environment, Loaded, Source, Watch, load};

use crate::cli::RunOptions;
use crate::named::{Refusal, entry};
use crate::plan::Plan;
use crate::reload::is_alike;

/// A server as it runs.
pub(super) struct RunningServer {
    /// Its name in the file.
    pub(super) name: String,
    pub(super) plan: Plan,
    pub(super) handle: ServerHandle,
}

impl RunningServer {
    /// Returns the server as the gateway sees it.
    pub(super) fn for_gateway(&self) -> (GatewayServer, UpstreamConfig) {
        let upstream = &self.plan.upstream;
        (GatewayServer::new(&upstream.name, self.handle.id), upstream.clone())
    }
}

/// The parts of a gateway that a reload changes.
pub(super) struct ServedFile {
    pub(super) options: Arc<RunOptions>,
    pub(super) is_ours: bool,
    pub(super) watch: Watch,
    /// The only server that is served, if one was named.
    pub(super) only: Option<String>,
    pub(super) servers: Vec<RunningServer>,
    pub(super) gateway: Arc<Gateway>,
    pub(super) pool: Arc<ServerPool>,
    pub(super) inputs: Arc<InputQueue>,
    pub(super) redactor: Redactor,
    pub(super) state: Option<PathBuf>,
}

impl ServedFile {
    /// Checks the file for a change, and applies it to the servers. Returns the new settings of access.
    pub(super) fn look(&mut self, log: &LogHandle) -> Option<AccessSettings> {
        let source = self.watch.look()?;
        self.take(source, log)
    }

    /// Reads the file at SIGHUP.
    pub(super) fn read(&mut self, log: &LogHandle) -> Option<AccessSettings> {
        match self.watch.look_anew() {
            Some(source) => self.take(source, log),
            None => {
                let path = self.watch.path().display();
                log.write(LogLevel::Error, &format!("{path} cannot be read; the old configuration stays"));
                None
            }
        }
    }

    fn take(&mut self, source: Source, log: &LogHandle) -> Option<AccessSettings> {
        let loaded = load(source, self.is_ours, Environment::of_process());
        let plans = match self.plans(&loaded) {
            Ok(plans) => plans,
            Err(mistakes) => {
                mistakes.iter().for_each(|mistake| log.write(LogLevel::Error, mistake));
                let path = loaded.source.path().display();
                log.write(LogLevel::Error, &format!("{path} is not used; the old configuration stays"));
                return None;
            }
        };
        plans.iter().for_each(|(_, plan)| self.redactor.learn(&plan.secrets()));
        self.remove_missing(&plans, log);
        for (name, plan) in plans {
            let known = self.servers.iter().position(|server| server.name == name);
            match known {
                Some(at) if plan.endpoint.is_same_kind(&self.servers[at].plan.endpoint) => self.change(at, plan, log),
                Some(at) => {
                    // A command that becomes a URL is another server.
                    self.remove(at, log);
                    self.add(name, plan, log);
                }
                None => self.add(name, plan, log),
            }
        }
        Some(loaded.access)
    }

    /// Returns the plans of all servers of the file, or the mistakes in it.
    fn plans(&self, loaded: &Loaded) -> Result<Vec<(String, Plan)>, Vec<String>> {
        let is_served = |name: &str| self.only.as_deref().is_none_or(|only| only == name);
        let concerns = |server: Option<&str>| server.is_none_or(is_served);
        let errors = loaded.findings.iter().filter(|finding| finding.is_error() && concerns(finding.server.as_deref()));
        let mistakes: Vec<String> = errors.map(|finding| finding.line(&loaded.source)).collect();
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let served = loaded.servers.iter().filter(|server| !server.is_disabled && is_served(&server.name));
        let line = self.options.line();
        let plan = |name: &String| {
            let first_line = |refusal: Refusal| refusal.words.lines().next().unwrap_or_default().to_owned();
            entry(loaded, name, &line).map(|plan| (name.clone(), plan)).map_err(|refusal| vec![first_line(refusal)])
        };
        let plans = served.map(|server| plan(&server.name)).collect::<Result<Vec<_>, _>>()?;
        if plans.is_empty() {
            return Err(vec!["the file has no server that can be used".to_owned()]);
        }
        Ok(plans)
    }

    fn remove_missing(&mut self, plans: &[(String, Plan)], log: &LogHandle) {
        for at in (0..self.servers.len()).rev() {
            if !plans.iter().any(|(name, _)| *name == self.servers[at].name) {
                self.remove(at, log);
            }
        }
    }

    fn remove(&mut self, at: usize, log: &LogHandle) {
        let removed = self.servers.remove(at);
        self.gateway.remove_server(&removed.plan.upstream.name);
        log.write(LogLevel::Info, &format!("{} is not served any more", removed.plan.upstream.name));
    }

    fn add(&mut self, name: String, plan: Plan, log: &LogHandle) {
        let opened = plan.credential_source(self.redactor.clone(), None).and_then(|source| {
            let endpoint = plan.endpoint.open()?;
            let id = self.pool.new_id().ok_or("there are too many servers")?;
            Ok((NewServer::new(id, plan.upstream.clone(), endpoint), source))
        });
        let (mut new, source) = match opened {
            Ok(opened) => opened,
            Err(why) => return log.write(LogLevel::Error, &format!("{name} cannot be served: {why}")),
        };
        source.into_iter().for_each(|source| new.credential(source));
        let state = self.state.as_ref().filter(|_| plan.upstream.catalogue.cache);
        if let Some(file) = state.and_then(|state| CatalogueFile::open(state, plan.identity(), log.clone())) {
            new.list_cache(file.hiding(self.redactor.clone()));
        }
        let handle = new.handle();
        self.inputs.push_server(new);
        log.write(LogLevel::Info, &format!("{name} is served at /mcp/{}", plan.upstream.name));
        let server = RunningServer { name, plan, handle };
        let (served, config) = server.for_gateway();
        self.pool.add(served, config);
        self.servers.push(server);
    }

    fn change(&mut self, at: usize, plan: Plan, log: &LogHandle) {
        let server = &self.servers[at];
        let is_moved =
            plan.endpoint != server.plan.endpoint || plan.upstream.transport != server.plan.upstream.transport;
        if !is_moved && is_alike(&plan.upstream, &server.plan.upstream) {
            return;
        }
        if is_moved {
            let opened = plan.credential_source(self.redactor.clone(), None);
            match opened.and_then(|source| Ok((plan.endpoint.open()?, source))) {
                Ok((endpoint, source)) => {
                    server.handle.next_source.put(source);
                    server.handle.next.put(endpoint);
                }
                Err(why) => {
                    let name = &server.name;
                    return log.write(LogLevel::Error, &format!("{name}: {why}; its old configuration stays"));
                }
            }
        }
        let change = if is_moved { Change::Transport } else { Change::Policies };
        let (upstream, config) = (server.handle.id, Box::new(plan.upstream.clone()));
        self.pool.reconfigure(upstream, &plan.upstream);
        self.inputs.push_change(Reconfiguration { upstream, config, change });
        self.servers[at].plan = plan;
    }
}
