//! `mendline doctor`: finds out, layer by layer, why a server does not work, and what to do about it.
//!
//! Most problems of a server are not about MCP: a name, a port, a certificate, a token, a program that is not
//! installed. So the layers are examined from the bottom up, each with its time. The first failure ends the
//! examination, and the layers above are skipped. The steps use the resolver, proxies, authorities and engine of
//! `mendline run`, so that both get the same results.
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
mod step;

use std::ffi::OsString;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::{ArgAction, Args};
use mendline_config::{Loaded, Server};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use self::report::{Report, Section};
use self::step::Step;
use crate::cli::USAGE;
use crate::named::{Refusal, resolve};
use crate::plan::{Endpoint, Plan};
use crate::policy_flags::duration;
use crate::server_flags::{Line, ServerFlags};

/// Time limit of one step.
const LIMIT: Duration = Duration::from_secs(10);

/// Number of servers that are examined at once, so that their starts do not slow each other down.
const AT_ONCE: usize = 8;

const EXAMPLES: &str = "\
Examples:
  mendline doctor                     every server of the configuration file, and this machine
  mendline doctor notes               one of them
  mendline doctor https://mcp.example.com/mcp
  mendline doctor --timeout 60s -- npx -y @modelcontextprotocol/server-everything

Layers of a server at a URL: name, tcp, tls, http, auth, handshake, lists, ping.
Layers of a command: command, start, handshake, lists, ping, stdout.
A server that supports both eras of MCP has one more line: eras.
The layers above a failure are skipped. Several servers are examined at once, and shown in the
order of the file. Nothing is changed.
Exit codes: 0 healthy, 1 a layer failed, 2 wrong usage or configuration, 3 no server of
that name, 6 only a login is missing.";

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

    /// URL of the server, or its name in the configuration file [default: every server of the file]
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
}

/// Examines the named server, or everything.
pub(crate) fn run(options: &DoctorOptions) -> ExitCode {
    let limits = Limits { step: options.timeout.unwrap_or(LIMIT), start: options.timeout };
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
    let (plan, named) = resolve(&line)?;
    if let Some(named) = &named {
        let mut section = report.section("configuration", &named.found.path.display().to_string());
        configuration::examine(&named.loaded, line.by_name(), &mut section);
        report.keep_configuration(section);
    }
    Candidate::with(plan).examine(limits, report).await;
    let mut section = report.quiet_section("machine", "");
    machine::examine(&mut section);
    report.keep_machine(section);
    Ok(())
}

async fn all(options: &DoctorOptions, limits: Limits, report: &mut Report) -> Result<(), Refusal> {
    let mut section = report.section("machine", "");
    machine::examine(&mut section);
    report.keep_machine(section);
    let found = match crate::named::locate(options.server.config.as_deref()) {
        Ok(found) => found,
        Err(why) => {
            let mut section = report.section("configuration", "");
            configuration::missing(&why, &mut section);
            report.keep_configuration(section);
            return Ok(());
        }
    };
    let loaded = crate::named::read(&found)?;
    let mut section = report.section("configuration", &found.path.display().to_string());
    configuration::examine(&loaded, None, &mut section);
    report.keep_configuration(section);
    let candidates: Vec<Candidate> = loaded.servers.iter().map(|server| Candidate::of(server, &loaded)).collect();
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
    readiness: Readiness,
}

/// Result of the preparation.
enum Readiness {
    /// The plan to reach the server.
    Plan(Box<Plan>),
    /// The step that says why the server is not examined.
    Skipped(Step),
}

impl Candidate {
    /// Prepares a server of the file, unless the file itself prevents that.
    fn of(server: &Server, loaded: &Loaded) -> Candidate {
        let skipped =
            |step| Candidate { name: server.name.clone(), place: String::new(), readiness: Readiness::Skipped(step) };
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
        Candidate { name, place, readiness: Readiness::Plan(Box::new(plan)) }
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
        match self.readiness {
            Readiness::Skipped(step) => section.add(step),
            Readiness::Plan(plan) => match &plan.endpoint {
                Endpoint::Child(command) => child::examine(&plan, command, limits, section).await,
                Endpoint::Remote(address) => remote::examine(&plan, address, limits, section).await,
            },
        }
    }
}
