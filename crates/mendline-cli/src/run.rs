//! `mendline run`: one client on stdin and stdout, one server as a child or at a URL.
//!
//! This module only names the parts; [`mendline::Builder`] puts them together. The driver is a task of a runtime with one
//! thread, because waking a task takes no system call, unlike waking the outermost future.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mendline::builder::ControlSocket;
use mendline::catalogue::CatalogueFile;
use mendline::control::runtime_dir;
use mendline::decisions::config::Transport;
use mendline::decisions::port::Ending;
use mendline::frontend::StdioFrontend;
use mendline::observe::log::{Log, LogHandle, LogLevel};
use mendline::state::state_directory;
use mendline::stats::StatsObserver;
use mendline_config::LogSettings;
use mendline_oauth::LoginUi;

use crate::cli::{NEEDS_LOGIN, NEGATIVE, RunOptions, Via};
use crate::external_inputs::{self, WatchedFile};
use crate::joined_gateway;
use crate::login::browser;
use crate::login::ui::DesktopUi;
use crate::named::{Named, Refusal, log_findings};
use crate::plan::Plan;
use crate::reload::Reload;
use crate::running_name::{Reached, reach};
use crate::server_flags::Line;
use crate::untrusted_text::one_line;

/// The environment variable for the log level.
const LOG_VARIABLE: &str = "MENDLINE_LOG";

/// The environment variable that turns the statistics off.
const STATS_VARIABLE: &str = "MENDLINE_STATS";

/// Time for which the end waits for the renewal of a login: a token that the provider has replaced would be lost.
pub(crate) const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// The entry of a file that the server comes from, if it does.
    entry: Option<Named>,
    options: Arc<RunOptions>,
}

fn prepare(options: &Arc<RunOptions>) -> Result<Bridge, Refusal> {
    let level = log_level_or_default(options.log_level)?;
    let line = options.line();
    let log_for = |plan: &Plan, file: &LogSettings| {
        let mut log = Log::of_server(level, &plan.upstream.name);
        log.redactor().learn(&plan.secrets());
        if let Some(choices) = options.log_files.choose(file, |name| std::env::var_os(name))? {
            log.add_files(&choices);
        }
        Ok::<Log, String>(log)
    };
    let config = line.server.config.as_deref();
    let gateway = options.via.and_then(|Via::Auto| joined_gateway::url(line.by_name()?, config));
    let Reached { plan, named: entry, gateway } = match (line.by_name(), gateway) {
        (Some(name), Some(url)) => {
            let plan = joined_gateway::plan(name, Some(&url), &line)?;
            Reached { plan, named: None, gateway: Some(url) }
        }
        _ => reach(&line)?,
    };
    let log = log_for(&plan, &entry.as_ref().map(|named| named.loaded.logs).unwrap_or_default())?;
    if let Some(url) = gateway {
        log.write(LogLevel::Info, &format!("uses the gateway at {url}"));
    }
    if let Some(named) = &entry {
        log_findings(&named.loaded, &named.name, &log.handle());
    }
    if let (Some(file), Some(program)) = (&options.also_configured_in, options.command.first()) {
        let (program, file) = (program.to_string_lossy(), file.display());
        let words = format!(
            "runs the command `{program}`, because words follow the name; the server `{program}` of {file} is run by `mendline run {program}`"
        );
        log.write(LogLevel::Warn, &words);
    }
    let bridge = Bridge { plan, log, entry, options: Arc::clone(options) };
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = runtime.block_on(self.drive());
        // A pending name lookup must not delay the exit.
        runtime.shutdown_background();
        ended
    }

    async fn drive(self) -> std::io::Result<Ending> {
        let Bridge { plan, log, entry, options } = self;
        let (redactor, log_handle, limits) = (log.redactor(), log.handle(), plan.limits.clone());
        let through_the_network = plan.upstream.transport != Transport::Child;
        let state = state_directory(|name| std::env::var_os(name));
        let name = plan.upstream.name.clone();
        let state_of_stats = state.clone().filter(|_| is_counted());
        let state = state.filter(|_| plan.upstream.catalogue.cache);
        let list_cache = state.and_then(|state| CatalogueFile::open(&state, plan.identity(), log.handle()));

        let person = person(&plan, log.handle());
        let (mut builder, server) = plan.builder(redactor.clone(), person.clone()).map_err(std::io::Error::other)?;
        if let Some(list_cache) = list_cache {
            builder.list_cache(server.id, list_cache.hiding(redactor.clone()));
        }
        let stats = state_of_stats.map(|state| StatsObserver::new(&state, [(server.id, name)]));
        builder.control_socket(ControlSocket {
            directories: runtime_dir::candidates(|name| std::env::var_os(name)),
            configuration: entry.as_ref().map(|named| named.file.found.path.display().to_string()),
        });
        if let Some(endpoint) = options.metrics.bind().await? {
            log_handle.write(LogLevel::Info, &format!("serving metrics at http://{}/metrics", endpoint.address()?));
            builder.metrics(endpoint);
        }
        let inputs = builder.inputs();
        let reload = entry.map(|named| {
            let reload = Reload::new(named, options, redactor, server.clone(), person, Arc::clone(&inputs));
            Box::new(reload) as Box<dyn WatchedFile>
        });
        external_inputs::listen(inputs, through_the_network, reload, None, log.handle())?;

        let frontend = StdioFrontend::open(&limits)?;
        let mut running = builder.observer(log).observer(stats).start([(server.id, frontend)]);
        for problem in running.problems() {
            log_handle.write(LogLevel::Warn, &problem.to_string());
        }
        let ended = running.ended().await;
        mendline_oauth::finish_renewals(RENEWAL_TIMEOUT).await;
        ended
    }
}

/// Returns whether recoveries are counted.
pub(crate) fn is_counted() -> bool {
    std::env::var_os(STATS_VARIABLE).is_none_or(|value| value != "off")
}

/// Returns the person at this desktop, whose browser a login may open.
fn person(plan: &Plan, log: LogHandle) -> Option<Arc<dyn LoginUi>> {
    let is_there = plan.opens_browser() && browser::check(|name| std::env::var_os(name)).is_ok();
    is_there.then(|| Arc::new(DesktopUi { log }) as Arc<dyn LoginUi>)
}

pub(crate) fn log_level_or_default(given: Option<LogLevel>) -> Result<LogLevel, String> {
    if let Some(level) = given {
        return Ok(level);
    }
    match std::env::var(LOG_VARIABLE) {
        Ok(text) if !text.is_empty() => text.parse().map_err(|error| format!("{LOG_VARIABLE}={text}: {error}")),
        _ => Ok(LogLevel::default()),
    }
}
