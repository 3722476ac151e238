//! `mendline run`: one client on our stdin and stdout, one server as a child or at a URL.
//!
//! This puts the pieces together and does nothing else. The guard is started first, because no child may be started
//! without one. The driver runs as a task of a runtime with one thread, which is this one: a task is woken without a
//! system call, the outermost future is not.

use std::process::ExitCode;

use mendline::decisions::config::{Dialect, Transport};
use mendline::decisions::port::Ending;
use mendline::decisions::{ClientId, Config, Engine, Secret, UpstreamConfig, UpstreamId};
use mendline::driver::{Client, Driver, Host};
use mendline::frontend::stdio;
use mendline::observe::log::{Log, LogLevel};
use mendline::transport::child::{ChildCommand, Children};
use mendline::transport::guard::Guard;
use mendline::transport::http::{ProxyRules, Target, TlsOptions};
use mendline::transport::remote::Remote;
use mendline_wire::Limits;

use crate::GUARD;
use crate::cli::{NEEDS_LOGIN, NEGATIVE, RunOptions, TransportFlag, USAGE};
use crate::name::Name;
use crate::news::News;
use crate::variables::expand;

/// The environment variable that says what to log when the command line does not.
const LOG_VARIABLE: &str = "MENDLINE_LOG";

/// The environment variable that names further authorities, as Node has it: people who need it have set it already.
const EXTRA_ROOTS: &str = "NODE_EXTRA_CA_CERTS";

/// Runs the bridge until its client has gone or somebody stops it.
pub(crate) fn run(options: &RunOptions) -> ExitCode {
    match prepare(options) {
        Ok(bridge) => match bridge.run() {
            Ok(Ending::Ready) => ExitCode::SUCCESS,
            Ok(Ending::NeverReady) => ExitCode::from(NEGATIVE),
            Ok(Ending::NeedsLogin) => ExitCode::from(NEEDS_LOGIN),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(NEGATIVE)
            }
        },
        Err(complaint) => {
            eprintln!("error: {complaint}");
            ExitCode::from(USAGE)
        }
    }
}

/// Everything that is needed to begin.
struct Bridge {
    config: Config,
    server: Server,
    log: Log,
}

/// Where the server is.
enum Server {
    Child(ChildCommand),
    Remote(Box<Target>),
}

fn prepare(options: &RunOptions) -> Result<Bridge, String> {
    let level = log_level_or_default(options.log_level)?;
    let (mut upstream, server) = match (&options.target, &options.url_env) {
        (Some(url), _) => remote(&expand(url, environment)?, options)?,
        (None, Some(name)) => remote(&variable(name)?, options)?,
        (None, None) => child(options)?,
    };
    options.choices.apply(&mut upstream)?;
    let log = Log::to_stderr(level, vec![upstream.name.clone()]);
    Ok(Bridge { config: Config::new(vec![upstream]), server, log })
}

fn child(options: &RunOptions) -> Result<(UpstreamConfig, Server), String> {
    let [program, arguments @ ..] = options.command.as_slice() else {
        return Err(NO_COMMAND.to_owned());
    };
    if !options.header.is_empty() || !options.header_env.is_empty() {
        return Err("--header is for servers at a URL; a command gets its secrets through its environment".to_owned());
    }
    let name = options.name.clone().unwrap_or_else(|| Name::of_command(program, arguments)).to_string();
    let upstream = UpstreamConfig::child(name, program.to_string_lossy());
    Ok((upstream, Server::Child(ChildCommand::new(program.clone(), arguments.to_vec()))))
}

fn remote(url: &str, options: &RunOptions) -> Result<(UpstreamConfig, Server), String> {
    if !url.contains("://") {
        return Err(not_a_url(&without_secrets(url)));
    }
    let mut target = Target::parse(url).map_err(|fault| format!("{fault}: {}", without_secrets(url)))?;
    for header in &options.header {
        let (name, value) = header.split_once(':').ok_or_else(|| {
            // Only the beginning is shown: the rest may be a secret.
            let shown: String = header.chars().take(8).collect();
            format!("a header is written as 'Name: value', not as {shown:?}…")
        })?;
        let value = Secret::new(expand(value.trim(), environment)?);
        target = target.header(name.trim(), &value).map_err(|fault| fault.to_string())?;
    }
    for header in &options.header_env {
        let (name, holder) = header
            .split_once('=')
            .ok_or_else(|| format!("--header-env is written as NAME=VARIABLE, not as {header:?}"))?;
        let value = Secret::new(variable(holder)?.trim().to_owned());
        target = target.header(name.trim(), &value).map_err(|fault| fault.to_string())?;
    }
    if let Some(timeout) = options.connect_timeout {
        target = target.connect_timeout(timeout);
    }
    let rules = ProxyRules::from_variables(std::env::vars()).map_err(|fault| fault.to_string())?;
    target = target.proxies(&rules).tls(extra_roots()?);
    let name = options.name.clone().unwrap_or_else(|| Name::of_host(target.origin().host())).to_string();
    let dialect = match options.transport {
        TransportFlag::Auto => Dialect::Auto,
        TransportFlag::Http => Dialect::Streamable,
        TransportFlag::Sse => Dialect::Sse,
    };
    let upstream = UpstreamConfig::http(name, target.origin().to_string(), dialect);
    Ok((upstream, Server::Remote(Box::new(target))))
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What a variable that is named plainly holds.
fn variable(name: &str) -> Result<String, String> {
    environment(name).ok_or_else(|| format!("the variable {name} is not set"))
}

/// Authorities that the operator trusts beyond the system's.
fn extra_roots() -> Result<TlsOptions, String> {
    let mut options = TlsOptions::default();
    if let Some(path) = std::env::var_os(EXTRA_ROOTS).filter(|path| !path.is_empty()) {
        let shown = path.to_string_lossy();
        let pem = std::fs::read(&path).map_err(|error| format!("{EXTRA_ROOTS}: {shown} cannot be read: {error}"))?;
        options.trust(&pem).map_err(|fault| format!("{EXTRA_ROOTS}: {shown}: {fault}"))?;
    }
    Ok(options)
}

impl Bridge {
    fn run(self) -> std::io::Result<Ending> {
        let Bridge { config, server, log } = self;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ended = match server {
            Server::Child(command) => {
                let guard = Guard::start("/proc/self/exe", vec![GUARD.into()]);
                if let Err(error) = &guard {
                    log.say(LogLevel::Warn, &format!("no guard: the server may outlive a killed Mendline ({error})"));
                }
                runtime.block_on(drive(config, Children::new(vec![command], guard.ok()), log))
            }
            Server::Remote(target) => runtime.block_on(drive(config, Remote::new(*target), log)),
        };
        // A name that the resolver still looks for is nobody's any more.
        runtime.shutdown_background();
        ended
    }
}

async fn drive<H>(config: Config, host: H, log: Log) -> std::io::Result<Ending>
where
    H: Host + 'static,
{
    let through_the_network = config.upstreams.iter().any(|upstream| upstream.transport != Transport::Child);
    let news = News::listen(through_the_network, &log)?;
    let (reader, writer) = stdio::open()?;
    let engine = Engine::new(config, fastrand::u64(..));
    let client = Client { id: ClientId(1), upstream: UpstreamId(0), reader, writer };
    let driver = Driver::new(engine, Limits::default(), host, client, log);
    let task = tokio::spawn(driver.run(move |cx| news.poll(cx)));
    task.await.map_err(std::io::Error::other)
}

const NO_COMMAND: &str = "there is no server to run

  mendline run -- npx -y @modelcontextprotocol/server-everything
  mendline run https://mcp.example.com/mcp

Everything after `--` is the server's command. `mendline run --help` says more.";

fn not_a_url(target: &str) -> String {
    format!(
        "{target:?} is not a URL; a command comes after `--`:\n\n  mendline run -- {target} …\n\nServers by name, from a configuration file, are not built yet."
    )
}

/// A URL without what may be a secret in it: its query, and a user's name and password.
fn without_secrets(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => shown.to_owned(),
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
