//! `mendline run`: one client on stdin and stdout, one server as a child or at a URL.
//!
//! This module only assembles the parts. The guard starts first, because no child may start without one. The driver is
//! a task of a runtime with one thread, because waking a task takes no system call, unlike waking the outermost future.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use mendline::catalogue::CatalogueFile;
use mendline::control::{Socket, StatusObserver, StatusStore, runtime_dir, server};
use mendline::decisions::config::Transport;
use mendline::decisions::port::Ending;
use mendline::decisions::{ClientId, Config, Engine, Input, Moment, UpstreamId};
use mendline::driver::{Client, Driver, External, Host};
use mendline::frontend::StdioFrontend;
use mendline::observe::log::{Log, LogLevel};
use mendline::state::state_directory;
use mendline::transport::child::Children;
use mendline::transport::guard::Guard;
use mendline::transport::remote::Remote;
use mendline_config::LogSettings;
use mendline_wire::Limits;

use crate::GUARD;
use crate::cli::{NEEDS_LOGIN, NEGATIVE, RunOptions};
use crate::external_inputs::ExternalInputs;
use crate::named::{Refusal, log_findings, named};
use crate::plan::{Endpoint, Plan};
use crate::reload::{Reload, ReloadTarget};
use crate::server_flags::Line;
use crate::untrusted_text::one_line;

/// The environment variable for the log level.
const LOG_VARIABLE: &str = "MENDLINE_LOG";

/// Runs until the client disconnects or a signal stops it.
pub(crate) fn run(options: Box<RunOptions>) -> ExitCode {
    match prepare(&Arc::from(options)) {
        Ok(bridge) => match bridge.run() {
            Ok(Ending::Ready) => ExitCode::SUCCESS,
            Ok(Ending::NeverReady) => ExitCode::from(NEGATIVE),
            Ok(Ending::NeedsLogin) => ExitCode::from(NEEDS_LOGIN),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(NEGATIVE)
            }
        },
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

/// Everything that is needed to start.
struct Bridge {
    plan: Plan,
    log: Log,
    /// Set if the server comes from a file.
    reload: Option<Reload>,
}

fn prepare(options: &Arc<RunOptions>) -> Result<Bridge, Refusal> {
    let level = log_level_or_default(options.log_level)?;
    let line = options.line();
    let log_for = |plan: &Plan, file: &LogSettings| {
        let mut log = Log::to_stderr(level, vec![plan.upstream.name.clone()]);
        log.redactor().learn(&plan.secrets());
        if let Some(choices) = options.log_files.choose(file, |name| std::env::var_os(name))? {
            log.add_files(&choices);
        }
        Ok::<Log, String>(log)
    };
    let bridge = match line.by_name() {
        Some(name) => {
            let named = named(name, &line)?;
            let log = log_for(&named.plan, &named.loaded.logs)?;
            log_findings(&named.loaded, name, &log.handle());
            let reload = Some(Reload::new(name, &named, Arc::clone(options), log.redactor()));
            Bridge { plan: named.plan, log, reload }
        }
        None => {
            let plan = Plan::of_flags(&line)?;
            let log = log_for(&plan, &LogSettings::default())?;
            if let (Some(file), Some(program)) = (&options.also_configured_in, options.command.first()) {
                let (program, file) = (program.to_string_lossy(), file.display());
                let words = format!(
                    "runs the command `{program}`, because words follow the name; the server `{program}` of {file} is run by `mendline run {program}`"
                );
                log.write(LogLevel::Warn, &words);
            }
            Bridge { log, plan, reload: None }
        }
    };
    if level >= LogLevel::Info && std::io::stdin().is_terminal() {
        eprintln!("{}", terminal_hint(&line));
    }
    Ok(bridge)
}

/// Returns the hint for a person who has started `mendline run` in a terminal, which sends no MCP.
fn terminal_hint(line: &Line<'_>) -> String {
    let server = match (line.by_name(), line.target) {
        (Some(name), _) => one_line(name),
        (None, Some(_)) => "URL".to_owned(),
        (None, None) if line.command.is_empty() => "URL".to_owned(),
        (None, None) => "-- CMD".to_owned(),
    };
    format!("Waiting for an MCP client on stdin. To try a server: mendline tools {server}")
}

impl Bridge {
    fn run(self) -> std::io::Result<Ending> {
        let Bridge { plan, log, reload } = self;
        let state = state_directory(|name| std::env::var_os(name)).filter(|_| plan.upstream.catalogue.cache);
        let list_cache = state.and_then(|state| CatalogueFile::open(&state, plan.identity(), log.handle()));
        let list_cache = list_cache.map(|list_cache| list_cache.hiding(log.redactor()));
        let Plan { upstream, endpoint, limits } = plan;
        let config = Config::new(vec![upstream]);
        let configuration = reload.as_ref().map(|reload| reload.file().display().to_string());
        let status_store = StatusStore::new(configuration, &config.upstreams).with_redactor(log.redactor());
        let setup = EngineSetup { config, limits, list_cache, status_store };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = match endpoint {
            Endpoint::Child(command) => {
                let guard = Guard::start("/proc/self/exe", vec![GUARD.into()]);
                if let Err(error) = &guard {
                    log.write(LogLevel::Warn, &format!("no guard: the server may outlive a killed Mendline ({error})"));
                }
                let children = Children::new(vec![command], guard.ok());
                let reload = reload.map(|reload| (reload, ReloadTarget::Child(children.next())));
                runtime.block_on(drive(setup, children, reload, log))
            }
            Endpoint::Remote(address) => {
                let target = address.target().map_err(std::io::Error::other)?;
                let remote = Remote::new(target.limits(setup.limits.clone()));
                let reload = reload.map(|reload| (reload, ReloadTarget::Remote(remote.next())));
                runtime.block_on(drive(setup, remote, reload, log))
            }
        };
        // A pending name lookup must not delay the exit.
        runtime.shutdown_background();
        ended
    }
}

/// Setup of the engine and its driver.
struct EngineSetup {
    config: Config,
    limits: Limits,
    /// Cache of the server's handshake and lists.
    list_cache: Option<CatalogueFile>,
    /// Status store for the control socket.
    status_store: StatusStore,
}

async fn drive<H>(
    setup: EngineSetup,
    host: H,
    reload: Option<(Reload, ReloadTarget)>,
    log: Log,
) -> std::io::Result<Ending>
where
    H: Host + 'static,
{
    let EngineSetup { config, limits, list_cache, status_store } = setup;
    let through_the_network = config.upstreams.iter().any(|upstream| upstream.transport != Transport::Child);
    let inputs = ExternalInputs::listen(through_the_network, reload, log.handle())?;
    let (recorder, _socket) = open_control_socket(status_store, &config, &inputs, &log).unzip();
    let frontend = StdioFrontend::open(&limits)?;
    let mut engine = Engine::new(config, fastrand::u64(..));
    if let Some(what) = list_cache.as_ref().and_then(CatalogueFile::read) {
        engine.handle(Input::Cached { upstream: UpstreamId(0), what }, Moment::ZERO);
    }
    let client = Client { id: ClientId(1), upstream: UpstreamId(0), frontend };
    let redactor = log.redactor();
    let mut driver = Driver::new(engine, limits, host, (log, recorder)).with_client(client).with_redactor(redactor);
    if let Some(list_cache) = list_cache {
        driver = driver.with_cache_store(UpstreamId(0), Box::new(list_cache.store()));
    }
    let task = tokio::spawn(driver.run(move |cx| inputs.poll(cx).map(External::Input)));
    task.await.map_err(std::io::Error::other)
}

/// Opens the control socket. Without a directory for it, the process runs without one.
fn open_control_socket(
    status_store: StatusStore,
    config: &Config,
    inputs: &Arc<ExternalInputs>,
    log: &Log,
) -> Option<(StatusObserver, server::SocketGuard)> {
    let name = config.upstreams.first().map_or("", |upstream| &upstream.name);
    match Socket::open(&runtime_dir::candidates(|name| std::env::var_os(name)), name) {
        Ok(socket) => {
            let (status_store, inputs) = (status_store.shared(), Arc::clone(inputs));
            let steer: server::InputSender = Arc::new(move |input| inputs.push_command(input));
            Some((StatusObserver::new(Arc::clone(&status_store)), socket.serve(status_store, steer)))
        }
        Err(why) => {
            log.write(LogLevel::Warn, &format!("`mendline status` will not see this process: {why}"));
            None
        }
    }
}

fn log_level_or_default(given: Option<LogLevel>) -> Result<LogLevel, String> {
    if let Some(level) = given {
        return Ok(level);
    }
    match std::env::var(LOG_VARIABLE) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|error| format!("{LOG_VARIABLE}={text}: {error}")),
        _ => Ok(LogLevel::default()),
    }
}
