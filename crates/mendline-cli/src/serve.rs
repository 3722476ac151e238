//! `mendline serve`: many clients over HTTP, one or more servers.

use std::process::ExitCode;
use std::sync::Arc;

use mendline::builder::ControlSocket;
use mendline::catalogue::CatalogueFile;
use mendline::control::runtime_dir;
use mendline::decisions::config::Transport;
use mendline::frontend::ChannelFrontend;
use mendline::frontend::http::{Audit, Gateway, GatewayServer, Hub, Listener, Sealer, key_file};
use mendline::observe::log::{Log, LogLevel};
use mendline::state::state_directory;
use mendline_config::{Loaded, LogSettings};

use crate::cli::{NEGATIVE, ServeOptions};
use crate::external_inputs;
use crate::gateway_access::{self, GatewayAccess};
use crate::named::{Refusal, entry, locate, log_findings, read, refuse_obstacles, resolve};
use crate::plan::Plan;
use crate::run::{RENEWAL_TIMEOUT, log_level_or_default};

/// Serves until a signal stops it.
pub(crate) fn run(options: &ServeOptions) -> ExitCode {
    let prepared = match prepare(options) {
        Ok(prepared) => prepared,
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            return ExitCode::from(refusal.code);
        }
    };
    match prepared.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(NEGATIVE)
        }
    }
}

/// Everything that is needed to start.
struct Prepared {
    plans: Vec<Plan>,
    log: Log,
    configuration: Option<String>,
    listen: std::net::SocketAddr,
    access: GatewayAccess,
}

fn prepare(options: &ServeOptions) -> Result<Prepared, Refusal> {
    let level = log_level_or_default(options.run.log_level)?;
    let line = options.run.line();
    let (mut plans, mut loaded, mut configuration) = (Vec::new(), None, None);
    if line.target.is_some() || !line.command.is_empty() || options.run.server.url_env.is_some() {
        let (plan, named) = resolve(&line)?;
        plans.push(plan);
        if let Some(named) = named {
            configuration = Some(named.file.found.path.display().to_string());
            loaded = Some(named.loaded);
        }
    } else {
        let found = locate(line.server.config.as_deref())?;
        let file = read(&found)?;
        for server in file.servers.iter().filter(|server| !server.is_disabled) {
            plans.push(entry(&file, &server.name, &line)?);
        }
        if plans.is_empty() {
            let path = found.path.display();
            return Err(Refusal::from(format!(
                "{path} has no server that can be used; 'mendline check {path}' says why"
            )));
        }
        configuration = Some(found.path.display().to_string());
        loaded = Some(file);
    }
    let names: Vec<String> = plans.iter().map(|plan| plan.upstream.name.clone()).collect();
    let mut log = Log::to_stderr(level, names.clone());
    for plan in &plans {
        log.redactor().learn(&plan.secrets());
    }
    let settings: LogSettings = loaded.as_ref().map(|loaded| loaded.logs).unwrap_or_default();
    if let Some(choices) = options.run.log_files.choose(&settings, |name| std::env::var_os(name))? {
        log.add_files(&choices);
    }
    if let Some(loaded) = &loaded {
        names.iter().for_each(|name| log_findings(loaded, name, &log.handle()));
    }
    let access = prepare_access(options, loaded)?;
    Ok(Prepared { plans, log, configuration, listen: options.listen, access })
}

/// Returns the rules of access, and the limits of connections.
fn prepare_access(options: &ServeOptions, loaded: Option<Loaded>) -> Result<GatewayAccess, Refusal> {
    if let Some(loaded) = &loaded {
        refuse_obstacles(loaded, &loaded.gateway_obstacles())?;
    }
    let settings = loaded.map(|loaded| loaded.access).unwrap_or_default();
    let state = state_directory(|name| std::env::var_os(name));
    let access = gateway_access::prepare(&options.access, settings, options.listen, state.as_deref())
        .map_err(|error| Refusal::from(error.to_string()))?;
    // It is stored already, so it is shown even if the start fails later.
    if let Some(made) = &access.made {
        eprintln!("{}", made.words());
    }
    Ok(access)
}

impl Prepared {
    fn run(self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(self.serve());
        runtime.shutdown_background();
        ended
    }

    async fn serve(self) -> std::io::Result<()> {
        let Prepared { plans, log, configuration, listen, access } = self;
        let (redactor, log_handle) = (log.redactor(), log.handle());
        let limits = plans.first().map(|plan| plan.limits.clone()).unwrap_or_default();
        let state = state_directory(|name| std::env::var_os(name));
        let key = match &state {
            Some(state) => key_file::read_or_create(state)?,
            None => Sealer::generate_key().ok_or_else(|| std::io::Error::other("the system has no random numbers"))?,
        };
        let sealer =
            Sealer::new(&key).ok_or_else(|| std::io::Error::other("the key of the session ids is unusable"))?;
        let listener = Listener::bind(listen).await.map_err(|error| {
            let why = format!("cannot listen on {listen}: {error}; choose another address with --listen");
            std::io::Error::new(error.kind(), why)
        })?;

        let mut builder = Plan::empty_builder(limits.clone(), redactor.clone());
        let mut servers = Vec::new();
        let through_the_network = plans.iter().any(|plan| plan.upstream.transport != Transport::Child);
        for plan in plans {
            let name = plan.upstream.name.clone();
            let state = state.as_ref().filter(|_| plan.upstream.catalogue.cache);
            let list_cache = state.and_then(|state| CatalogueFile::open(state, plan.identity(), log.handle()));
            let server = plan.add_to(&mut builder, redactor.clone(), None).map_err(std::io::Error::other)?;
            if let Some(list_cache) = list_cache {
                builder.list_cache(server.id, list_cache.hiding(redactor.clone()));
            }
            servers.push((name, server));
        }
        builder.control_socket(ControlSocket {
            directories: runtime_dir::candidates(|name| std::env::var_os(name)),
            configuration,
        });
        if let Some((_, first)) = servers.first() {
            external_inputs::listen(builder.inputs(), first.id, through_the_network, None, log.handle())?;
        }
        let address = listener.address()?;
        for (name, _) in &servers {
            log_handle.write(LogLevel::Info, &format!("serving {name} at http://{address}/mcp/{name}"));
        }
        let (hub, frontend) = Hub::new();
        builder.multi_frontend(Box::new(frontend));
        let names = servers.iter().map(|(name, _)| name.clone()).collect();
        let audit = match state.as_ref().filter(|_| access.audit) {
            Some(state) => Some(Audit::open(state, hub.clone(), names)?),
            None => None,
        };
        let named = |(name, server): (String, mendline::builder::ServerHandle)| GatewayServer {
            name: Arc::from(name),
            upstream: server.id,
        };
        let servers = servers.into_iter().map(named).collect();
        let gateway = Arc::new(Gateway::new(hub, servers, access.access, sealer, limits));
        let serving = tokio::spawn(listener.with_limits(access.limits).serve(gateway));
        let mut running = builder.observer(log).observer(audit).start::<ChannelFrontend>([]);
        for problem in running.problems() {
            log_handle.write(LogLevel::Warn, &problem.to_string());
        }
        let ended = running.ended().await;
        serving.abort();
        mendline_oauth::finish_renewals(RENEWAL_TIMEOUT).await;
        ended.map(drop)
    }
}
