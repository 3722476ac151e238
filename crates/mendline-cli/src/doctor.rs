//! `mendline doctor`: finds out, layer by layer, why a server does not work, and what to do about it.
//!
//! Most problems of a server are not about MCP: a name, a port, a certificate, a token, a program that is not
//! installed. So the layers are examined from the bottom up, each with its time. The first failure ends the
//! examination, and the layers above are skipped. The steps use the resolver, proxies, authorities and engine of
//! `mendline run`, so that both get the same results.
//!
//! A server that runs already is asked first, through its own Mendline; a second copy of a command is not started.
//!
//! Every step has a time limit. The doctor changes nothing and shows no possible secret.

mod answer;
mod authorization;
mod certificate;
mod child;
mod configuration;
mod machine;
mod protocol;
mod redact;
mod remote;
mod report;
mod running;
mod step;
mod versions;

use std::ffi::OsString;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::{ArgAction, Args};
use mendline_config::{Loaded, Server};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use self::report::{Report, Section};
use self::running::Running;
use self::step::Step;
use crate::cli::{UNKNOWN, USAGE};
use crate::named::{Refusal, locate, resolve};
use crate::plan::{Endpoint, Plan};
use crate::policy_flags::duration;
use crate::server_flags::{Line, ServerFlags};
use crate::target::ServerSelector;
use crate::untrusted_text::one_line;

/// Time limit of one step.
const LIMIT: Duration = Duration::from_secs(10);

/// The limit for a renewal that is under way at the end: longer than two requests to a provider.
const RENEWAL_LIMIT: Duration = Duration::from_secs(35);

/// Number of servers that are examined at once, so that their starts do not slow each other down.
const AT_ONCE: usize = 8;

const EXAMPLES: &str = "\
Examples:
  mendline doctor                     everything that runs or is configured, and this machine
  mendline doctor notes               one server; notes#4711 that of one process
  mendline doctor https://mcp.example.com/mcp
  mendline doctor --passive           starts and contacts nothing
  mendline doctor --timeout 60s -- npx -y @modelcontextprotocol/server-everything

A server that runs is asked first, through its Mendline: running, process, breaker, limit. A second
copy of a command is started only with --start.
Layers of a server at a URL: name, tcp, tls, http, auth, handshake, lists, ping.
Layers of a command: command, start, handshake, lists, ping, stdout.
A server that supports both eras of MCP has one more line: eras. A slow one has: speed.
The layers above a failure are skipped. Several servers are examined at once, and shown in the
order of the file. Nothing is changed.
Exit codes: 0 healthy, 1 a layer failed or a running server is not ready, 2 wrong usage or
configuration, 3 no server of that name, 6 only a login is missing.";

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "mendline doctor [OPTIONS] [URL|NAME]\n       mendline doctor [OPTIONS] -- <COMMAND> [ARGUMENTS]...")]
pub(crate) struct DoctorOptions {
    /// Print all findings as JSON
    #[arg(long)]
    json: bool,

    /// Time limit of each step [default: 10s, and 60s for the start of a command]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    server: ServerFlags,

    /// Start another copy of a command, even if the server runs already
    #[arg(long)]
    start: bool,

    /// Start and contact no server: examine what runs, the configuration and this machine
    #[arg(long, conflicts_with = "start")]
    passive: bool,

    /// URL of the server, or its name [default: everything that runs or is configured]
    #[arg(value_name = "URL|NAME", conflicts_with_all = ["command", "url_env"])]
    target: Option<String>,

    /// Command that starts the server, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["config", "url_env"])]
    command: Vec<OsString>,

    /// Print help with every option
    #[arg(id = "help_all", long = "help-all", action = ArgAction::HelpShort)]
    _help_all: Option<bool>,
}

/// Time limits.
#[derive(Clone, Copy)]
struct Limits {
    step: Duration,
    /// From the start of a command to its first answer, which may include a download.
    start: Option<Duration>,
    /// True if no server is started or contacted.
    is_passive: bool,
}

/// Examines the named server, or everything.
pub(crate) fn run(options: &DoctorOptions) -> ExitCode {
    let limits = Limits { step: options.timeout.unwrap_or(LIMIT), start: options.timeout, is_passive: options.passive };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let mut report = Report::new(options.json);
    let is_one = options.target.is_some() || !options.command.is_empty() || options.server.url_env.is_some();
    let examined = runtime.block_on(async {
        if is_one { one(options, limits, &mut report).await } else { all(options, limits, &mut report).await }
    });
    // A token that a provider is rotating would be lost with the process.
    runtime.block_on(mendline_oauth::finish_renewals(RENEWAL_LIMIT));
    // A pending name lookup must not delay the exit.
    runtime.shutdown_background();
    match examined {
        Ok(()) => report.finish(),
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

async fn one(options: &DoctorOptions, limits: Limits, report: &mut Report) -> Result<(), Refusal> {
    let (target, command) = (options.target.as_deref(), options.command.as_slice());
    let line = Line { verb: "doctor", server: &options.server, name: None, target, command, policies: None };
    let wanted = line.by_name().map(ServerSelector::parse);
    let mut all = if wanted.is_some() { Running::find() } else { Running::default() };
    let mut running = wanted.as_ref().map(|wanted| all.take(wanted)).unwrap_or_default();
    let (plan, named) = match resolve(&line) {
        Ok(resolved) => resolved,
        Err(refusal) if running.is_empty() => return Err(unknown(refusal, &line, &all)),
        Err(refusal) => {
            // The server runs, so its name is known. An entry with mistakes is reported beside that.
            let is_listed = refusal.code != UNKNOWN && locate(options.server.config.as_deref()).is_ok();
            for candidate in running.each().into_iter().map(Candidate::running) {
                candidate.examine(limits, report).await;
            }
            examine_machine(report);
            return if is_listed { Err(refusal) } else { Ok(()) };
        }
    };
    if !options.json {
        crate::names::say_which(named.as_ref().filter(|named| named.file.section.is_none()), &line);
    }
    if let Some(named) = &named {
        let mut section = report.section("configuration", &named.file.found.path.display().to_string());
        configuration::examine(&named.loaded, Some(&named.name), &mut section);
        report.keep_configuration(section);
    }
    let elsewhere = running.elsewhere(&plan.upstream.place);
    Candidate::with(plan).and(running, options.start).examine(limits, report).await;
    for candidate in elsewhere.each().into_iter().map(Candidate::running) {
        candidate.examine(limits, report).await;
    }
    examine_machine(report);
    Ok(())
}

/// Examines the machine; only problems are shown.
fn examine_machine(report: &mut Report) {
    let mut section = report.quiet_section("machine", "");
    machine::examine(&mut section);
    report.keep_machine(section);
}

/// Adds the running servers to the message about a name that is unknown.
fn unknown(refusal: Refusal, line: &Line<'_>, running: &Running) -> Refusal {
    let is_name =
        line.by_name().is_some() && (refusal.code == UNKNOWN || locate(line.server.config.as_deref()).is_err());
    if !is_name {
        return refusal;
    }
    let names: Vec<String> = running.names().iter().map(|name| one_line(name)).collect();
    let words = match names.as_slice() {
        [] => refusal.words,
        names => format!("{}\n\nRunning: {}", refusal.words, names.join(", ")),
    };
    Refusal { words, code: UNKNOWN }
}

async fn all(options: &DoctorOptions, limits: Limits, report: &mut Report) -> Result<(), Refusal> {
    let mut section = report.section("machine", "");
    machine::examine(&mut section);
    report.keep_machine(section);
    let mut running = Running::find();
    let mut candidates = Vec::new();
    match locate(options.server.config.as_deref()) {
        Ok(found) => {
            let loaded = crate::named::read(&found)?;
            let mut section = report.section("configuration", &found.path.display().to_string());
            configuration::examine(&loaded, None, &mut section);
            report.keep_configuration(section);
            for server in &loaded.servers {
                let candidate = Candidate::of(server, &loaded);
                let mut same = running.take(&ServerSelector::parse(&server.policies.name));
                let elsewhere = same.elsewhere(&candidate.place);
                candidates.push(candidate.and(same, options.start));
                candidates.extend(elsewhere.each().into_iter().map(Candidate::running));
            }
        }
        Err(why) => {
            let mut section = report.section("configuration", "");
            configuration::missing(&why, !running.is_empty(), &mut section);
            report.keep_configuration(section);
        }
    }
    candidates.extend(running.each().into_iter().map(Candidate::running));
    match <[Candidate; 1]>::try_from(candidates) {
        Ok([only]) => only.examine(limits, report).await,
        Err(several) => examine_all(several, limits, report).await,
    }
    Ok(())
}

/// Examines several servers at once. Their findings are shown in the order of the file.
async fn examine_all(candidates: Vec<Candidate>, limits: Limits, report: &mut Report) {
    let permits = Rc::new(Semaphore::new(AT_ONCE));
    let tasks = LocalSet::new();
    let mut examined = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let (name, mut section, permits) =
            (candidate.name.clone(), candidate.section(report, true), Rc::clone(&permits));
        let task = tasks.spawn_local(async move {
            // Permits are granted in order, and the semaphore is never closed.
            let _permit = permits.acquire().await;
            candidate.fill(limits, &mut section).await;
            section
        });
        examined.push((name, task));
    }
    let show = async {
        for (name, task) in examined {
            report.wait_for(&name);
            match task.await {
                Ok(section) => report.keep_server(section),
                Err(fault) => std::panic::resume_unwind(fault.into_panic()),
            }
        }
    };
    tasks.run_until(show).await;
}

/// A server to examine.
struct Candidate {
    name: String,
    place: String,
    /// The processes that have it already.
    running: Running,
    /// True if another copy is started even so.
    starts_copy: bool,
    readiness: Readiness,
}

/// Result of the preparation.
enum Readiness {
    /// The plan to reach the server.
    Plan(Box<Plan>),
    /// Only its Mendline knows how to reach it.
    Running,
    /// The step that says why the server is not examined.
    Skipped(Step),
}

impl Candidate {
    /// Prepares a server of the file, unless the file itself prevents that.
    fn of(server: &Server, loaded: &Loaded) -> Candidate {
        let skipped = |step| Candidate::new(server.name.clone(), String::new(), Readiness::Skipped(step));
        if server.is_disabled {
            return skipped(Step::skipped("all", "it is disabled"));
        }
        if !loaded.obstacles(&server.name).is_empty() {
            return skipped(Step::skipped("all", "its configuration cannot be used; see above"));
        }
        match Plan::of_server(server, None) {
            Ok(plan) => Candidate::with(plan),
            Err(why) => skipped(Step::failed("configuration", why)),
        }
    }

    fn with(plan: Plan) -> Candidate {
        let (name, place) = (plan.upstream.name.clone(), plan.upstream.place.clone());
        Candidate::new(name, place, Readiness::Plan(Box::new(plan)))
    }

    /// Prepares a server that runs, and whose configuration is not known.
    fn running(running: Running) -> Candidate {
        let (name, place) = running.title();
        Candidate { running, ..Candidate::new(name, place, Readiness::Running) }
    }

    fn new(name: String, place: String, readiness: Readiness) -> Candidate {
        Candidate { name, place, running: Running::default(), starts_copy: false, readiness }
    }

    /// Adds the processes that have it already.
    fn and(self, running: Running, starts_copy: bool) -> Candidate {
        Candidate { running, starts_copy, ..self }
    }

    /// Creates its empty section of the report.
    fn section(&self, report: &mut Report, is_for_later: bool) -> Section {
        let mut section = match is_for_later {
            true => report.deferred_section(&self.name, &self.place),
            false => report.section(&self.name, &self.place),
        };
        if let Readiness::Plan(plan) = &self.readiness {
            section.hide(&plan.secrets());
        }
        section
    }

    /// Examines it alone: every step is printed at once.
    async fn examine(self, limits: Limits, report: &mut Report) {
        let mut section = self.section(report, false);
        self.fill(limits, &mut section).await;
        report.keep_server(section);
    }

    async fn fill(self, limits: Limits, section: &mut Section) {
        self.running.examine(section);
        let is_running = self.running.has_process() && !self.starts_copy;
        match self.readiness {
            Readiness::Running => {}
            Readiness::Skipped(step) => section.add(step),
            Readiness::Plan(plan) => match &plan.endpoint {
                Endpoint::Child(command) if is_running => {
                    child::examine_command(command, child::NotStarted::Runs, section);
                }
                Endpoint::Child(command) if limits.is_passive => {
                    child::examine_command(command, child::NotStarted::Passive, section);
                }
                Endpoint::Child(command) => child::examine(&plan, command, limits, section).await,
                Endpoint::Remote(_) if limits.is_passive => {
                    section.add(Step::skipped("all", "not contacted (--passive)"));
                }
                Endpoint::Remote(address) => remote::examine(&plan, address, limits, section).await,
            },
        }
    }
}
