//! `mendline call`: calls one tool from a shell.
//!
//! The call goes through the same engine as a call of an agent: it waits for a server that is unavailable, and it is
//! sent again where that is safe. If the outcome is unknown, the error message and the exit code say so. The server
//! validates the arguments; a mismatch with the tool's schema only causes a hint. Ctrl-C cancels the call.

mod arguments;
mod result;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use self::arguments::Arguments;
use self::result::{Outcome, Rendered};
use crate::cli::{NOT_SENT, OUTCOME_UNKNOWN};
use crate::mcp_client::{McpClient, Notification, RequestError, raw};
use crate::named::Refusal;
use crate::plan::Plan;
use crate::policy_flags::duration;
use crate::progress::ProgressLine;
use crate::reporter::Reporter;
use crate::running_name::{Reached, reach};
use crate::server_flags::ServerFlags;
use crate::style::Style;
use crate::tools::tool::Tool;
use crate::tools::{find, server_first, time_limit, trouble};
use crate::untrusted_text::one_line;
use crate::{interrupt, output};

/// Margin by which the engine's timeouts exceed ours.
const SLACK: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  mendline call notes search '{\"query\": \"milk\"}'
  mendline call notes search --arg query=milk --arg limit=5
  mendline call notes import @notes.json           arguments from a file
  jq … | mendline call notes import -              or from stdin
  mendline call https://mcp.example.com/mcp draw --arg what=cat --output pictures
  mendline call echo --arg message=hello -- npx -y @modelcontextprotocol/server-everything

`mendline tools SERVER` lists the tools, `mendline tools SERVER TOOL` shows the arguments of one.
The result goes to stdout, everything else to stderr. On a terminal and on stderr, characters that
could change what you see are escaped; a pipe gets the result as it is. Ctrl-C cancels the call.
Exit codes: 0 ok, 1 the tool reported an error or its result cannot be written, 2 wrong usage or
configuration, 3 no server or tool of that name, 4 it was sent and its outcome is unknown,
5 it was not sent or refused, 6 the server needs a login.";

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "mendline call [OPTIONS] <URL|NAME> <TOOL> [JSON|@FILE|-]\n       mendline call [OPTIONS] <TOOL> [JSON|@FILE|-] -- <COMMAND> [ARGUMENTS]...")]
pub(crate) struct CallOptions {
    /// One argument: text where the tool takes text, JSON otherwise; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    arg: Vec<String>,

    /// Print the whole result as JSON, with both text and structured content
    #[arg(long)]
    json: bool,

    /// Save images, audio and files of the result in this directory; nothing is overwritten
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Time limit of the whole call [default: as configured, 5m after the last progress and 30m in total]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    server: ServerFlags,

    /// Server (its URL, or its name in the configuration file), tool, and arguments of the tool
    #[arg(value_name = "URL|NAME] [TOOL] [JSON|@FILE|-", num_args = 0..=3)]
    words: Vec<String>,

    /// Command that starts the server, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["config", "url_env"])]
    command: Vec<OsString>,

    /// Print help with every option
    #[arg(id = "help_all", long = "help-all", action = ArgAction::HelpShort)]
    _help_all: Option<bool>,
}

/// Runs `mendline call`.
pub(crate) fn run(options: &CallOptions) -> ExitCode {
    match call(options) {
        Ok(code) => code,
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn call(options: &CallOptions) -> Result<ExitCode, Refusal> {
    let (line, rest) = server_first("call TOOL", &options.words, &options.server, &options.command);
    let (tool, text) = match rest {
        [tool] => (tool, None),
        [tool, text] => (tool, Some(text.as_str())),
        _ => return Err(Refusal::from(CALL_USAGE.to_owned())),
    };
    let arguments = Arguments::read(text, &options.arg)?;
    let Reached { mut plan, named, .. } = reach(&line)?;
    crate::names::say_which(named.as_ref(), &line);
    if let Some(timeout) = options.timeout {
        let timeouts = &mut plan.upstream.timeouts;
        // The steps before the call have our own time limit, which is slightly shorter than the engine's.
        (timeouts.call, timeouts.total) = (timeout + SLACK, timeout + SLACK);
        timeouts.recovery = timeouts.recovery.min(timeout);
        plan.upstream.tools.entry(tool.clone()).or_default().timeout = Some(timeout);
    }
    let server = (plan.upstream.name.clone(), plan.upstream.credential);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::from(error.to_string()))?;
    let ended = runtime.block_on(run_call(plan, options, tool, &arguments));
    runtime.shutdown_background();
    match ended {
        Ended::Answered(result) => Ok(answered(&result, tool, options)),
        Ended::Refused(refusal) => Err(refusal),
        Ended::Failed(it) => Err(trouble(&server, &line, &it)),
        Ended::Interrupted { is_sent } => {
            let (words, code) = if is_sent {
                ("interrupted: the call was cancelled; it may or may not have run", OUTCOME_UNKNOWN)
            } else {
                ("interrupted before the call was sent; it did not run", NOT_SENT)
            };
            Err(Refusal { words: words.to_owned(), code })
        }
    }
}

const CALL_USAGE: &str = "mendline call needs a server and a tool

  mendline call notes search '{\"query\": \"milk\"}'
  mendline call notes search --arg query=milk
  mendline call search --arg query=milk -- notes-server

`mendline tools SERVER` lists the tools of a server.";

/// End of a call.
enum Ended {
    Answered(Box<RawValue>),
    Failed(RequestError),
    Refused(Refusal),
    Interrupted { is_sent: bool },
}

async fn run_call(plan: Plan, options: &CallOptions, tool: &str, arguments: &Arguments) -> Ended {
    let progress_line = ProgressLine::default();
    let time_limit = time_limit(&plan, options.timeout);
    let reporter = Reporter::new(&plan.upstream.name).on(&progress_line);
    let mut client = tokio::select! {
        connected = McpClient::connect(plan, time_limit, reporter) => match connected {
            Ok((client, _)) => client,
            Err(trouble) => return Ended::Failed(trouble),
        },
        () = interrupt::cancelled() => return Ended::Interrupted { is_sent: false },
    };
    let ended = tokio::select! {
        ended = call_tool(&mut client, time_limit, tool, arguments, &progress_line) => Some(ended),
        () = interrupt::signalled() => {
            progress_line.print("cancelling…");
            None
        }
    };
    progress_line.clear();
    let ended = match ended {
        Some(ended) => ended,
        None => {
            let is_sent = client.events().seen().is_sent;
            client.cancel().await;
            Ended::Interrupted { is_sent }
        }
    };
    // A second signal skips the orderly close.
    tokio::select! {
        () = client.close() => {}
        () = interrupt::signalled() => {}
    }
    ended
}

async fn call_tool(
    client: &mut McpClient,
    time_limit: Duration,
    name: &str,
    arguments: &Arguments,
    progress_line: &ProgressLine,
) -> Ended {
    let listed = match timeout(time_limit, client.list("tools/list", "tools")).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(trouble)) => return Ended::Failed(trouble.before_a_call()),
        Err(_) => return Ended::Failed(RequestError::Timeout(time_limit)),
    };
    let tools: Vec<Tool> = listed.iter().filter_map(|text| Tool::of(text)).collect();
    let tool = match find(&tools, name) {
        Ok(tool) => tool,
        Err(refusal) => return Ended::Refused(refusal),
    };
    let given = match arguments.for_tool(&tool) {
        Ok(given) => given,
        Err(complaint) => return Ended::Refused(Refusal::from(complaint)),
    };
    let style = Style::for_stderr();
    for hint in given.hints(&tool) {
        progress_line.print(&style.yellow(&format!("note: {hint}")));
    }
    let params = vec![("name".to_owned(), raw(&Value::from(name))), ("arguments".to_owned(), given.text())];
    let mut notify = |notification: Notification| match notification {
        Notification::Progress(progress) => progress_line.show(&progress),
        Notification::Log { level, text } => {
            progress_line.print(&style.faint(&format!("{}: {}", one_line(&level), one_line(&text))));
        }
        Notification::RequestDeclined(method) => {
            let words = format!(
                "note: the server requested {}, which a command line cannot provide; declined",
                one_line(&method)
            );
            progress_line.print(&style.yellow(&words));
        }
    };
    match client.request("tools/call", params, &mut notify).await {
        Ok(result) => Ended::Answered(result),
        Err(trouble) => Ended::Failed(trouble),
    }
}

fn answered(result: &RawValue, tool: &str, options: &CallOptions) -> ExitCode {
    let shown = Rendered::of(result, tool, options.output.as_deref());
    if options.json {
        output::json(&crate::json_text::pretty(result));
        shown.notes.iter().for_each(|note| eprintln!("{note}"));
        return ExitCode::from(shown.outcome.exit_code());
    }
    match shown.outcome {
        Outcome::Succeeded => {
            if shown.is_escaped {
                print!("{}", shown.text);
            } else {
                output::data(shown.text.as_bytes());
            }
            shown.notes.iter().for_each(|note| eprintln!("{note}"));
        }
        Outcome::Failed | Outcome::MendlineFailed(_) => {
            eprint!("{}", shown.text);
            shown.notes.iter().for_each(|note| eprintln!("{note}"));
        }
    }
    ExitCode::from(shown.outcome.exit_code())
}
