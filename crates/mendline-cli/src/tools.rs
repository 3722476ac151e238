//! `mendline tools`: lists the tools, prompts and resources of a server.

pub(crate) mod tool;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args};
use mendline::decisions::config::CredentialKind;
use serde_json::value::RawValue;

use self::tool::Tool;
use crate::cli::{NEEDS_LOGIN, NEGATIVE, UNKNOWN};
use crate::json_text::{Members, pretty};
use crate::mcp_client::{McpClient, RequestError, ServerInfo};
use crate::named::Refusal;
use crate::names;
use crate::plan::{Endpoint, Plan};
use crate::policy_flags::duration;
use crate::reporter::Reporter;
use crate::running_name::{Reached, reach};
use crate::server_flags::{Line, ServerFlags};
use crate::style::Style;
use crate::untrusted_text::{counted, cut, headline, lines, one_line, width};
use crate::{interrupt, output};

/// Time limit for the handshake of a server at a URL. A child has its start timeout, which may include a download.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  mendline tools notes                       a server of the configuration file
  mendline tools notes create_note           all about one tool
  mendline tools https://mcp.example.com/mcp
  mendline tools --json -- npx -y @modelcontextprotocol/server-everything
  mendline tools --prompts --resources notes

`mendline call` calls a tool, `mendline doctor` finds out why a server does not answer.
Exit codes: 0 ok, 1 the server returned an error, or Ctrl-C, 2 wrong usage or configuration,
3 no server or tool of that name, 5 the server cannot be reached, 6 it needs a login.";

#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "mendline tools [OPTIONS] <URL|NAME> [TOOL]\n       mendline tools [OPTIONS] [TOOL] -- <COMMAND> [ARGUMENTS]...")]
pub(crate) struct ToolsOptions {
    /// Print the answer of the server as JSON
    #[arg(long)]
    json: bool,

    /// List the prompts
    #[arg(long)]
    prompts: bool,

    /// List the resources
    #[arg(long)]
    resources: bool,

    /// Time limit for the server's answer [default: 10s at a URL, else the limit of its handshake]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    #[command(flatten)]
    server: ServerFlags,

    /// Server (its URL, or its name in the configuration file), and a tool to describe in full
    #[arg(value_name = "URL|NAME] [TOOL", num_args = 0..=2)]
    words: Vec<String>,

    /// Command that starts the server, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["config", "url_env"])]
    command: Vec<OsString>,

    /// Print help with every option
    #[arg(id = "help_all", long = "help-all", action = ArgAction::HelpShort)]
    _help_all: Option<bool>,
}

/// Runs `mendline tools`.
pub(crate) fn run(options: &ToolsOptions) -> ExitCode {
    match list(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

/// Splits the words of a line into the server and the rest.
pub(crate) fn server_first<'a>(
    verb: &'static str,
    words: &'a [String],
    server: &'a ServerFlags,
    command: &'a [OsString],
) -> (Line<'a>, &'a [String]) {
    let line = |target| Line { verb, server, name: None, target, command, policies: None };
    match words {
        // A command or a variable names the server already.
        rest if !command.is_empty() || server.url_env.is_some() => (line(None), rest),
        [target, rest @ ..] => (line(Some(target.as_str())), rest),
        [] => (line(None), &[]),
    }
}

/// Returns the time limit for the handshake.
pub(crate) fn time_limit(plan: &Plan, wanted: Option<Duration>) -> Duration {
    wanted.unwrap_or(match plan.endpoint {
        Endpoint::Child(_) => plan.upstream.timeouts.handshake,
        Endpoint::Remote(_) => HANDSHAKE_TIMEOUT,
    })
}

/// Returns the message and the exit code of a failed request.
pub(crate) fn trouble(server: &(String, CredentialKind), line: &Line<'_>, trouble: &RequestError) -> Refusal {
    let (plan_name, credential) = server;
    let mut words = format!("error: {}: {}", one_line(plan_name), one_line(&trouble.words()));
    if !trouble.is_from_server() {
        let target = match (line.target, line.command) {
            (Some(target), _) if target.contains('?') || target.contains('@') => "URL".to_owned(),
            (Some(target), _) => one_line(target),
            (None, [program]) => format!("-- {}", one_line(&program.to_string_lossy())),
            (None, [program, ..]) => format!("-- {} …", one_line(&program.to_string_lossy())),
            (None, []) => "URL".to_owned(),
        };
        let advice = match (trouble.exit_code(), credential) {
            (NEEDS_LOGIN, CredentialKind::Login) => format!("To log in:\n\n  mendline login {target}"),
            _ => format!("To find out what is wrong, and what to do:\n\n  mendline doctor {target}"),
        };
        words.push_str(&format!("\n\n{advice}"));
    }
    Refusal { words, code: trouble.exit_code() }
}

fn list(options: &ToolsOptions) -> Result<(), Refusal> {
    let (line, rest) = server_first("tools", &options.words, &options.server, &options.command);
    if line.target.is_none() && line.command.is_empty() && line.server.url_env.is_none() {
        return Err(Refusal::from(NO_SERVER.to_owned()));
    }
    let Reached { plan, named, .. } = reach(&line)?;
    names::say_which(named.as_ref(), &line);
    let server = (plan.upstream.name.clone(), plan.upstream.credential);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal::from(error.to_string()))?;
    let fetched = runtime.block_on(fetch_lists(plan, options));
    runtime.shutdown_background();
    let Some(fetched) = fetched else {
        return Err(Refusal { words: "interrupted".to_owned(), code: NEGATIVE });
    };
    let listing = fetched.map_err(|it| trouble(&server, &line, &it))?;
    if options.json {
        output::json(&listing.json());
        return Ok(());
    }
    let style = Style::for_stdout();
    match rest.first() {
        Some(wanted) => {
            let tool = find(&listing.tools(), wanted)?;
            print!("{}", full(&tool, style));
        }
        None => print!("{}", listing.shown(style)),
    }
    Ok(())
}

const NO_SERVER: &str = "there is no server given

  mendline tools notes
  mendline tools https://mcp.example.com/mcp
  mendline tools -- npx -y @modelcontextprotocol/server-everything

A name is looked up in the configuration file; everything after `--` is a server's command.";

/// Returns the tool with this name, or an error with similar names.
pub(crate) fn find(tools: &[Tool], wanted: &str) -> Result<Tool, Refusal> {
    if let Some(tool) = tools.iter().find(|tool| tool.name == wanted) {
        return Ok(tool.clone());
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut words = format!("error: there is no tool {wanted:?} on this server");
    if let Some(meant) = mendline_config::nearest(wanted, names.iter().copied()) {
        let _ = write!(words, "; did you mean {meant:?}?");
    }
    match names.as_slice() {
        [] => words.push_str("\n\nIt has no tools."),
        names => {
            let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
            let _ = write!(words, "\n\nIts tools are: {}", cut(&names.join(", "), 2_000));
        }
    }
    Err(Refusal { words, code: UNKNOWN })
}

/// The answers of a server.
struct Listing {
    info: ServerInfo,
    lists: Lists,
}

/// Queries the server; `None` after Ctrl-C.
async fn fetch_lists(plan: Plan, options: &ToolsOptions) -> Option<Result<Listing, RequestError>> {
    let time_limit = time_limit(&plan, options.timeout);
    let reporter = Reporter::new(&plan.upstream.name);
    let (mut client, info) = tokio::select! {
        connected = McpClient::connect(plan, time_limit, reporter) => match connected {
            Ok(connected) => connected,
            Err(trouble) => return Some(Err(trouble)),
        },
        () = interrupt::cancelled() => return None,
    };
    let lists = tokio::select! {
        lists = read_lists(&mut client, &info, options, time_limit) => Some(lists),
        () = interrupt::cancelled() => None,
    };
    if lists.is_none() {
        client.cancel().await;
    }
    // Another signal skips the orderly close.
    tokio::select! {
        () = client.close() => {}
        () = interrupt::signalled() => {}
    }
    lists.map(|lists| lists.map(|lists| Listing { info, lists }))
}

/// The lists by name, as the server wrote them.
type Lists = Vec<(&'static str, Vec<Box<RawValue>>)>;

async fn read_lists(
    client: &mut McpClient,
    info: &ServerInfo,
    options: &ToolsOptions,
    time_limit: Duration,
) -> Result<Lists, RequestError> {
    let wanted = [
        ("tools", !options.prompts && !options.resources),
        ("prompts", options.prompts),
        ("resources", options.resources),
    ];
    let mut lists = Vec::new();
    for (what, _) in wanted.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        let listed = match info.offers(what) {
            true => tokio::time::timeout(time_limit, client.list(&format!("{what}/list"), what)).await,
            false => Ok(Ok(Vec::new())),
        };
        lists.push((what, listed.unwrap_or(Err(RequestError::Timeout(time_limit)))?));
    }
    Ok(lists)
}

impl Listing {
    fn json(&self) -> String {
        let list = |(what, items): &(&str, Vec<Box<RawValue>>)| {
            let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
            format!("{what:?}:[{}]", items.join(","))
        };
        let text = format!("{{{}}}", self.lists.iter().map(list).collect::<Vec<_>>().join(","));
        // Pieces of JSON between braces are JSON.
        RawValue::from_string(text).map(|text| pretty(&text)).unwrap_or_default()
    }

    fn tools(&self) -> Vec<Tool> {
        let tools = self.lists.iter().filter(|(what, _)| *what == "tools");
        tools.flat_map(|(_, items)| items.iter().filter_map(|item| Tool::of(item))).collect()
    }

    fn shown(&self, style: Style) -> String {
        let mut out = String::new();
        let server = self.info.name.as_deref().map_or_else(|| "this server".to_owned(), one_line);
        for (what, items) in &self.lists {
            let singular = what.trim_end_matches('s');
            if !out.is_empty() {
                out.push('\n');
            }
            let _ = match items.len() {
                0 => writeln!(out, "{server} has no {what}."),
                count => writeln!(out, "{} of {server}", counted(count, singular)),
            };
            for item in items {
                out.push('\n');
                match *what {
                    "tools" => out.push_str(&Tool::of(item).map_or_else(String::new, |tool| brief(&tool, style))),
                    _ => out.push_str(&other(item, style)),
                }
            }
        }
        out
    }
}

/// Formats a tool briefly.
fn brief(tool: &Tool, style: Style) -> String {
    let width = width(std::io::stdout());
    let mut out = title(tool, style);
    if let Some(description) = &tool.description {
        let _ = writeln!(out, "  {}", headline(description, width.saturating_sub(2)));
    }
    out.push_str(&arguments(tool, style, width));
    out
}

/// Formats a tool in full.
fn full(tool: &Tool, style: Style) -> String {
    let mut out = title(tool, style);
    if let Some(description) = &tool.description {
        for line in lines(description.trim()).lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    if !tool.arguments.is_empty() {
        out.push('\n');
        out.push_str(&arguments(tool, style, usize::MAX));
    }
    for (what, schema) in [("arguments", &tool.input), ("result", &tool.output)] {
        let Some(schema) = schema else { continue };
        let _ = writeln!(out, "\n  {}", style.faint(&format!("{what}, as JSON Schema")));
        for line in lines(&pretty(schema)).lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

fn title(tool: &Tool, style: Style) -> String {
    let mut notes = Vec::new();
    notes.extend(tool.title.as_deref().filter(|title| *title != tool.name).map(one_line));
    notes.extend(tool.hints().into_iter().map(str::to_owned));
    let notes = if notes.is_empty() { String::new() } else { format!("  {}", style.faint(&notes.join(" · "))) };
    format!("{}{notes}\n", style.bold(&one_line(&tool.name)))
}

fn arguments(tool: &Tool, style: Style, width: usize) -> String {
    let rows: Vec<(String, String, &str, String)> = tool
        .arguments
        .iter()
        .map(|it| {
            let need = if it.is_required { "required" } else { "" };
            (one_line(&it.name), one_line(&it.kind), need, one_line(it.description.as_deref().unwrap_or_default()))
        })
        .collect();
    let widest = |column: fn(&(String, String, &str, String)) -> usize| rows.iter().map(column).max().unwrap_or(0);
    let names = widest(|row| row.0.chars().count()).min(32);
    let kinds = widest(|row| row.1.chars().count()).min(32);
    let needs = widest(|row| row.2.len()) + 2 * usize::from(tool.arguments.iter().any(|it| it.is_required));
    let mut out = String::new();
    for (name, kind, need, description) in rows {
        let start = format!("    {name:names$}  {kind:kinds$}{need:>needs$}");
        let left = width.saturating_sub(start.chars().count() + 2).max(20);
        let description = style.faint(&cut(&description, left));
        let _ = writeln!(out, "{}", format!("{start}  {description}").trim_end());
    }
    out
}

/// Formats a prompt or a resource.
fn other(item: &RawValue, style: Style) -> String {
    let Some(members) = Members::of(item) else { return String::new() };
    let text = |name: &str| members.text(name).map(|text| one_line(&text));
    let mut out = style.bold(&text("uri").or_else(|| text("name")).unwrap_or_default());
    let notes: Vec<String> =
        [text("uri").and_then(|_| text("name")), text("title"), text("mimeType")].into_iter().flatten().collect();
    if !notes.is_empty() {
        let _ = write!(out, "  {}", style.faint(&notes.join(" · ")));
    }
    out.push('\n');
    if let Some(description) = members.text("description") {
        let _ = writeln!(out, "  {}", headline(&description, width(std::io::stdout()).saturating_sub(2)));
    }
    for argument in members.list("arguments").iter().filter_map(|argument| Members::of(argument)) {
        let name = argument.text("name").unwrap_or_default();
        let need = if argument.flag("required") == Some(true) { "  required" } else { "" };
        let description = argument.text("description").map_or_else(String::new, |it| format!("  {}", one_line(&it)));
        let _ = writeln!(out, "    {}{need}{}", one_line(&name), style.faint(&description));
    }
    out
}
