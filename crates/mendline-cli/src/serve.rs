//! `mendline serve`: many clients over HTTP, one or more servers.

mod access_reload;
mod served_file;
mod shutdown;

use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mendline::builder::ControlSocket;
use mendline::catalogue::CatalogueFile;
use mendline::control::runtime_dir;
use mendline::decisions::config::Transport;
use mendline::frontend::ChannelFrontend;
use mendline::frontend::http::{AccessLog, Audit, Gateway, Hub, Listener, Sealer, ServerPool, key_file};
use mendline::observe::log::{Log, LogLevel};
use mendline::os::activation;
use mendline::state::state_directory;
use mendline::stats::StatsObserver;
use mendline_config::{AccessSettings, ConfigFile, Loaded, LogSettings, Watch};
use tokio::task::AbortHandle;

use self::access_reload::{AccessReload, WatchedFiles};
use self::served_file::{RunningServer, ServedFile};
use crate::access_flags::AccessOptions;
use crate::cli::{NEGATIVE, RunOptions, ServeOptions};
use crate::external_inputs::{self, BeforeStop, WatchedFile};
use crate::gateway_access::{self, GatewayAccess};
use crate::named::{Refusal, entry, locate, log_findings, read, refuse_obstacles, resolve};
use crate::plan::Plan;
use crate::run::{RENEWAL_TIMEOUT, is_counted, log_level_or_default};
use crate::stored_tokens;

/// The interval in which unused processes are looked for.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Serves until a signal stops it.
pub(crate) fn run(options: ServeOptions) -> ExitCode {
    if let Some(code) = stored_tokens::run(&options.access.stored) {
        return code;
    }
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

/// The configuration file of the servers.
struct OpenedFile {
    found: ConfigFile,
    text: String,
    /// The only server that is served, if one was named.
    only: Option<String>,
}

/// Everything that is needed to start.
struct Prepared {
    /// The servers, by their names in the file.
    plans: Vec<(String, Plan)>,
    file: Option<OpenedFile>,
    options: Arc<RunOptions>,
    log: Log,
    configuration: Option<String>,
    address: ListeningAddress,
    access: PreparedAccess,
}

/// The address to listen on.
struct ListeningAddress {
    /// A socket of the service manager, which listens already.
    passed: Option<std::net::TcpListener>,
    address: std::net::SocketAddr,
}

/// The rules of access, with everything that they come from.
struct PreparedAccess {
    rules: GatewayAccess,
    options: AccessOptions,
    settings: AccessSettings,
}

fn prepare(options: ServeOptions) -> Result<Prepared, Refusal> {
    if options.run.via.is_some() {
        return Err(Refusal::from("--via is for `mendline run`; a gateway runs its servers itself".to_owned()));
    }
    let level = log_level_or_default(options.run.log_level)?;
    let line = options.run.line();
    let (mut plans, mut loaded, mut configuration, mut file) = (Vec::new(), None, None, None);
    if line.target.is_some() || !line.command.is_empty() || options.run.server.url_env.is_some() {
        let (plan, named) = resolve(&line)?;
        let name = named.as_ref().map_or_else(|| plan.upstream.name.clone(), |named| named.name.clone());
        if let Some(named) = named {
            configuration = Some(named.file.found.path.display().to_string());
            // The file of a client has its servers in a section of its own, and is read at the start only.
            file = named.file.section.is_none().then(|| OpenedFile {
                found: named.file.found,
                text: named.loaded.source.text().to_owned(),
                only: Some(name.clone()),
            });
            loaded = Some(named.loaded);
        }
        plans.push((name, plan));
    } else {
        let found = locate(line.server.config.as_deref())?;
        let read = read(&found)?;
        for server in read.servers.iter().filter(|server| !server.is_disabled) {
            plans.push((server.name.clone(), entry(&read, &server.name, &line)?));
        }
        if plans.is_empty() {
            let path = found.path.display();
            return Err(Refusal::from(format!(
                "{path} has no server that can be used; 'mendline check {path}' says why"
            )));
        }
        configuration = Some(found.path.display().to_string());
        file = Some(OpenedFile { found, text: read.source.text().to_owned(), only: None });
        loaded = Some(read);
    }
    let names: Vec<String> = plans.iter().map(|(_, plan)| plan.upstream.name.clone()).collect();
    let mut log = Log::of_gateway(level, names.clone());
    for (_, plan) in &plans {
        log.redactor().learn(&plan.secrets());
    }
    let settings: LogSettings = loaded.as_ref().map(|loaded| loaded.logs).unwrap_or_default();
    if let Some(choices) = options.run.log_files.choose(&settings, |name| std::env::var_os(name))? {
        log.add_files(&choices);
    }
    if let Some(loaded) = &loaded {
        names.iter().for_each(|name| log_findings(loaded, name, &log.handle()));
    }
    let address = listening_address(options.listen).map_err(|error| Refusal::from(error.to_string()))?;
    let access = prepare_access(options.access, loaded, address.address)?;
    let options = Arc::new(options.run);
    Ok(Prepared { plans, file, options, log, configuration, address, access })
}

/// Returns the address of the socket that was passed on, or the one of the command line.
fn listening_address(listen: std::net::SocketAddr) -> std::io::Result<ListeningAddress> {
    let passed = activation::listening_socket()?;
    let address = match &passed {
        Some(socket) => socket.local_addr()?,
        None => listen,
    };
    Ok(ListeningAddress { passed, address })
}

/// Returns the rules of access at this address.
fn prepare_access(
    options: AccessOptions,
    loaded: Option<Loaded>,
    address: std::net::SocketAddr,
) -> Result<PreparedAccess, Refusal> {
    if let Some(loaded) = &loaded {
        refuse_obstacles(loaded, &loaded.gateway_obstacles())?;
    }
    let settings = loaded.map(|loaded| loaded.access).unwrap_or_default();
    let state = state_directory(|name| std::env::var_os(name));
    let rules = gateway_access::prepare(&options, &settings, address, state.as_deref())
        .map_err(|error| Refusal::from(error.to_string()))?;
    // It is stored already, so it is shown even if the start fails later.
    if let Some(made) = &rules.made {
        eprintln!("{}", made.words());
    }
    Ok(PreparedAccess { rules, options, settings })
}

impl ListeningAddress {
    async fn open(self) -> std::io::Result<Listener> {
        let ListeningAddress { passed, address } = self;
        match passed {
            Some(socket) => Listener::from_socket(socket),
            None => Listener::bind(address).await.map_err(|error| {
                let why = format!("cannot listen on {address}: {error}; choose another address with --listen");
                std::io::Error::new(error.kind(), why)
            }),
        }
    }
}

impl Prepared {
    fn run(self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(self.serve());
        runtime.shutdown_background();
        ended
    }

    async fn serve(self) -> std::io::Result<()> {
        let Prepared { plans, file, options, log, configuration, address: listen, access } = self;
        let PreparedAccess { rules, options: access_options, settings } = access;
        let (redactor, log_handle) = (log.redactor(), log.handle());
        let limits = plans.first().map(|(_, plan)| plan.limits.clone()).unwrap_or_default();
        let state = state_directory(|name| std::env::var_os(name));
        let key = match &state {
            Some(state) => key_file::read_or_create(state)?,
            None => Sealer::generate_key().ok_or_else(|| std::io::Error::other("the system has no random numbers"))?,
        };
        let sealer =
            Sealer::new(&key).ok_or_else(|| std::io::Error::other("the key of the session ids is unusable"))?;
        let is_activated = listen.passed.is_some();
        let access_log = match state.as_ref().filter(|_| rules.log) {
            Some(state) => Some(AccessLog::open(state)?),
            None => None,
        };
        let listener = listen.open().await?.with_tls(rules.tls.clone()).with_log(access_log.clone());

        let mut builder = Plan::empty_builder(limits.clone(), redactor.clone());
        let mut servers = Vec::new();
        let through_the_network = plans.iter().any(|(_, plan)| plan.upstream.transport != Transport::Child);
        for (name, plan) in plans {
            let state = state.as_ref().filter(|_| plan.upstream.catalogue.cache);
            let list_cache = state.and_then(|state| CatalogueFile::open(state, plan.identity(), log.handle()));
            let opened = plan.clone().add_to(&mut builder, redactor.clone(), None);
            let handle = opened.map_err(std::io::Error::other)?;
            if let Some(list_cache) = list_cache {
                builder.list_cache(handle.id, list_cache.hiding(redactor.clone()));
            }
            servers.push(RunningServer { name, plan, handle });
        }
        builder.control_socket(ControlSocket {
            directories: runtime_dir::candidates(|name| std::env::var_os(name)),
            configuration,
        });
        if let Some(endpoint) = options.metrics.bind().await? {
            log_handle.write(LogLevel::Info, &format!("serving metrics at http://{}/metrics", endpoint.address()?));
            builder.metrics(endpoint);
        }
        let address = listener.address()?;
        let (hub, frontend) = Hub::new();
        builder.multi_frontend(Box::new(frontend));
        let names = || servers.iter().map(|server| (server.handle.id, server.plan.upstream.name.clone()));
        let audit = match state.as_ref().filter(|_| rules.audit) {
            Some(state) => Some(Audit::open(state, hub.clone(), names())?),
            None => None,
        };
        let stats = state.as_ref().filter(|_| is_counted()).map(|state| StatsObserver::new(state, names()));
        let inputs = builder.inputs();
        let mut running = builder.observer(log).observer(audit).observer(stats).start::<ChannelFrontend>([]);
        for problem in running.problems() {
            log_handle.write(LogLevel::Warn, &problem.to_string());
        }
        let scheme = if rules.tls.is_some() { "https" } else { "http" };
        running.status().lock().unwrap_or_else(PoisonError::into_inner).set_gateway(format!("{scheme}://{address}"));
        for server in &servers {
            let name = &server.plan.upstream.name;
            log_handle.write(LogLevel::Info, &format!("serving {name} at {scheme}://{address}/mcp/{name}"));
        }
        let pool = Arc::new(ServerPool::new(hub.clone(), servers.iter().map(RunningServer::for_gateway)));
        let gateway = Gateway::new(hub, Arc::clone(&pool), rules.access, sealer, limits).with_status(running.status());
        let gateway = gateway.with_redactor(redactor.clone());
        let gateway = Arc::new(gateway);
        let access = AccessReload::new(
            access_options,
            settings,
            address,
            state.clone(),
            rules.tls.clone(),
            Arc::clone(&gateway),
        );
        let file = file.map(|file| {
            let (gateway, inputs) = (Arc::clone(&gateway), Arc::clone(&inputs));
            let watch = Watch::new(&file.found.path, file.text);
            let (is_ours, only) = (file.found.is_ours, file.only);
            ServedFile { options, is_ours, watch, only, servers, gateway, pool, inputs, redactor, state }
        });
        let watched = Some(Box::new(WatchedFiles { file, access }) as Box<dyn WatchedFile>);
        let serving = tokio::spawn(listener.serve(Arc::clone(&gateway)));
        // Connections to a socket of the service manager wait for the next process.
        let accepting = is_activated.then(|| serving.abort_handle());
        let drained = Arc::clone(&gateway);
        let before_stop: BeforeStop = Box::new(move || {
            drained.drain();
            accepting.iter().for_each(AbortHandle::abort);
        });
        external_inputs::listen(inputs, through_the_network, watched, Some(before_stop), log_handle)?;
        let stopping_idle = tokio::spawn(stop_idle(Arc::clone(&gateway)));
        let ended = running.ended().await;
        stopping_idle.abort();
        shutdown::end_streams(&gateway).await;
        serving.abort();
        access_log.iter().for_each(AccessLog::close);
        mendline_oauth::finish_renewals(RENEWAL_TIMEOUT).await;
        ended.map(drop)
    }
}

/// Ends processes that no client uses, again and again.
async fn stop_idle(gateway: Arc<Gateway>) {
    let mut interval = tokio::time::interval(IDLE_INTERVAL);
    loop {
        interval.tick().await;
        gateway.stop_idle();
    }
}
