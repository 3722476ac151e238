//! `mendline doctor`: what keeps a server from working, layer by layer, and what to do about it.
//!
//! A server that does not answer is a black box, and most of what is wrong with one is not wrong with MCP: a name, a port, a
//! certificate, a token, a program that is not installed. So the way to it is walked from the bottom up, each step with its
//! time, and the first one that fails is where it ends; what lies above cannot be known and is not tried. The steps are
//! those of `mendline run`, with the same resolver, proxies, authorities and engine, so that both meet the same.
//!
//! Every step is bounded in time. Nothing is changed anywhere, and nothing that might be a secret is shown.

mod answer;
mod authorization;
mod certificate;
mod child;
mod configuration;
mod machine;
mod protocol;
mod remote;
mod report;
mod step;
mod veil;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mendline_config::{Loaded, Server};

use self::report::{Report, Sheet};
use crate::choices::duration;
use crate::cli::USAGE;
use crate::named::{Refusal, meant};
use crate::plan::{Plan, Way};
use crate::server_flags::{Line, ServerFlags};

/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  mendline doctor                     every server of the configuration file, and this machine
  mendline doctor notes               one of them
  mendline doctor https://mcp.example.com/mcp
  mendline doctor --timeout 60s -- npx -y @modelcontextprotocol/server-everything

Layers of a server at a URL: name, tcp, tls, http, auth, handshake, lists, ping.
Layers of a command: command, start, handshake, lists, ping, stdout.
The first that fails stops the ones above it. Nothing is changed anywhere.
Exit codes: 0 all is well, 1 something is not, 2 wrong usage or configuration, 3 no server of
that name, 6 only a login is missing.";

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "mendline doctor [OPTIONS] [URL|NAME]\n       mendline doctor [OPTIONS] -- <COMMAND> [ARGUMENTS]...")]
pub(crate) struct DoctorOptions {
    /// Print everything that was found, as JSON
    #[arg(long)]
    json: bool,

    /// How long each step may take [default: 10s, and 60s for a command to start]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    server: ServerFlags,

    /// Which server: its URL, or its name in the configuration file [default: all of the file]
    #[arg(value_name = "URL|NAME", conflicts_with_all = ["command", "url_env"])]
    target: Option<String>,

    /// The server's command and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["config", "url_env"])]
    command: Vec<OsString>,
}

/// How long things may take.
#[derive(Clone, Copy)]
struct Limits {
    step: Duration,
    /// From the start of a command to its first answer, which may take a download.
    start: Option<Duration>,
}

/// Examines what was named, or everything.
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
    // A name that the resolver still looks for is nobody's any more.
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
    let line = Line { verb: "doctor", server: &options.server, name: None, target, command, choices: None };
    let (plan, named) = meant(&line)?;
    if let Some(named) = &named {
        let mut sheet = report.sheet("configuration", &named.found.path.display().to_string());
        configuration::examine(&named.loaded, line.by_name(), &mut sheet);
        report.keep_configuration(sheet);
    }
    examine(&plan, limits, report).await;
    let mut sheet = report.quiet_sheet("machine", "");
    machine::examine(&mut sheet);
    report.keep_machine(sheet);
    Ok(())
}

async fn all(options: &DoctorOptions, limits: Limits, report: &mut Report) -> Result<(), Refusal> {
    let mut sheet = report.sheet("machine", "");
    machine::examine(&mut sheet);
    report.keep_machine(sheet);
    let found = match crate::named::locate(options.server.config.as_deref()) {
        Ok(found) => found,
        Err(why) => {
            let mut sheet = report.sheet("configuration", "");
            configuration::missing(&why, &mut sheet);
            report.keep_configuration(sheet);
            return Ok(());
        }
    };
    let loaded = crate::named::read(&found)?;
    let mut sheet = report.sheet("configuration", &found.path.display().to_string());
    configuration::examine(&loaded, None, &mut sheet);
    report.keep_configuration(sheet);
    for server in &loaded.servers {
        examine_entry(server, &loaded, limits, report).await;
    }
    Ok(())
}

/// A server of the file, unless the file itself keeps it from being run.
async fn examine_entry(server: &Server, loaded: &Loaded, limits: Limits, report: &mut Report) {
    if server.is_disabled || !loaded.obstacles(&server.name).is_empty() {
        let why = if server.is_disabled { "it is disabled" } else { "its configuration cannot be used; see above" };
        let mut sheet = report.sheet(&server.name, "");
        sheet.put(step::Step::skipped("all", why));
        report.keep_server(sheet);
        return;
    }
    match Plan::of_server(server, None) {
        Ok(plan) => examine(&plan, limits, report).await,
        Err(why) => {
            let mut sheet = report.sheet(&server.name, "");
            sheet.put(step::Step::failed("configuration", why));
            report.keep_server(sheet);
        }
    }
}

async fn examine(plan: &Plan, limits: Limits, report: &mut Report) {
    let mut sheet: Sheet = report.sheet(&plan.upstream.name, &plan.upstream.place);
    sheet.hide(&plan.secrets());
    match &plan.way {
        Way::Child(command) => child::examine(plan, command, limits, &mut sheet).await,
        Way::Remote(address) => remote::examine(plan, address, limits, &mut sheet).await,
    }
    report.keep_server(sheet);
}
