//! The command line: every command and flag with its help, parser and error.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use mendline::observe::log::LogLevel;
use mendline_config::Name;

use crate::access_flags::AccessOptions;
use crate::add::AddOptions;
use crate::call::CallOptions;
use crate::completions::CompletionsOptions;
use crate::control::{ControlOptions, ReconnectOptions};
use crate::demo::DemoOptions;
use crate::demo_server::DemoServerOptions;
use crate::doctor::DoctorOptions;
use crate::explain::ExplainOptions;
use crate::list::ListOptions;
use crate::log_files::LogFileOptions;
use crate::login::LoginOptions;
use crate::logout::LogoutOptions;
use crate::logs::LogsOptions;
use crate::man::ManOptions;
use crate::metrics::{MetricsFlags, MetricsOptions};
use crate::policy_flags::PolicyFlags;
use crate::remove::RemoveOptions;
use crate::report::ReportOptions;
use crate::server_flags::{Line, ServerFlags};
use crate::set::{SetOptions, UnsetOptions};
use crate::stats::StatsOptions;
use crate::status::StatusOptions;
use crate::token::TokenOptions;
use crate::tools::ToolsOptions;
use crate::wrap::clients::Scope;

/// Exit code: a negative result, such as a server that never became ready.
pub(crate) const NEGATIVE: u8 = 1;

/// Exit code: there is nothing of that name.
pub(crate) const UNKNOWN: u8 = 3;

/// Exit code: a call was sent, and its outcome is unknown.
pub(crate) const OUTCOME_UNKNOWN: u8 = 4;

/// Exit code: nothing was sent, or the server refused it.
pub(crate) const NOT_SENT: u8 = 5;

/// Exit code: a person has to log in, or to provide a credential.
pub(crate) const NEEDS_LOGIN: u8 = 6;

/// Exit code: the command line or the configuration is invalid.
pub(crate) const USAGE: u8 = 2;

/// Keeps MCP connections alive.
///
/// Mendline is a proxy between an MCP client and an MCP server. When the server fails, Mendline starts it again,
/// restores the session and repeats the calls that are safe to repeat; it answers every other call in time, with what
/// is known about its outcome.
#[derive(Parser)]
#[command(name = "mendline", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one MCP server behind a connection that repairs itself
    Run(Box<RunOptions>),
    /// Serve MCP servers over HTTP, at an address that stays up while they come and go
    Serve(Box<ServeOptions>),
    /// Log in to a server at a URL
    Login(Box<LoginOptions>),
    /// End a login: revoke its tokens and delete them
    Logout(Box<LogoutOptions>),
    /// Print a fresh access token of a server, for other programs
    Token(Box<TokenOptions>),
    /// Show the state and the calls of every server of every running Mendline
    Status(StatusOptions),
    /// Explain one call: what it waited for, each attempt, the rule that decided, what to do
    Explain(ExplainOptions),
    /// Show what was recovered: restarts, reconnects, retries, saved calls
    Stats(StatsOptions),
    /// Print or serve the metrics of every running Mendline, for Prometheus
    Metrics(MetricsOptions),
    /// Make a running Mendline reconnect to its server; clients stay connected
    Reconnect(ReconnectOptions),
    /// Take a server out of service: nothing is sent to it until it is resumed
    Isolate(ControlOptions),
    /// Put an isolated server back into service
    Resume(ControlOptions),
    /// Add a server to the configuration file, and to a client
    Add(Box<AddOptions>),
    /// Show every known server: of the configuration file, of clients, and running ones
    List(ListOptions),
    /// Change keys of a server in the configuration file
    Set(SetOptions),
    /// Remove keys of a server from the configuration file
    Unset(UnsetOptions),
    /// Remove servers from the configuration file
    Remove(RemoveOptions),
    /// Validate a configuration file, and summarize it
    Check(CheckOptions),
    /// Print the JSON Schema of the configuration file, for editors
    Schema(SchemaOptions),
    /// Route a client's configured servers through Mendline
    Wrap(WrapOptions),
    /// Undo wrap: restore a client's servers as they were
    Unwrap(UnwrapOptions),
    /// Find out, layer by layer, why a server does not work, and what to do about it
    Doctor(Box<DoctorOptions>),
    /// Write one file for a bug report, without secrets
    Report(ReportOptions),
    /// List the tools of a server
    Tools(Box<ToolsOptions>),
    /// Call a tool of a server
    Call(Box<CallOptions>),
    /// Show the output of the servers and the decisions of Mendline, by time
    Logs(LogsOptions),
    /// Show in twenty seconds, without setup, what Mendline repairs
    Demo(DemoOptions),
    /// Print a completion script for a shell
    Completions(CompletionsOptions),
    /// Print or write the manual pages
    Man(ManOptions),
    /// The server of the demo and of the tests
    #[command(hide = true)]
    DemoServer(DemoServerOptions),
}

const RUN_EXAMPLES: &str = "\
Examples:
  mendline run -- npx -y @modelcontextprotocol/server-everything
  mendline run https://mcp.example.com/mcp
  mendline run --header 'Authorization: Bearer ${TOKEN}' https://mcp.example.com/sse
  mendline run --name notes --call-timeout 2m -- uvx notes-server --db notes.sqlite
  mendline run notes                   # by its name, from the configuration file
  mendline run --config ~/.cursor/mcp.json notes

MCP goes through stdin and stdout; messages for people go to stderr. `mendline wrap` writes such
commands into the configuration of your clients. Without `--`, a name that other words follow is a
command: `mendline run npx foo` runs npx.
Signals: TERM and INT start a graceful shutdown, in which running calls finish; a second one ends at
once. USR1 reconnects. HUP reloads the configuration file, which also happens when it changes.
Exit codes: 0 ok, 1 the server never became ready, 2 wrong usage or configuration, 3 no server of
that name, 6 the server needs a login.";

#[derive(Args)]
#[command(after_help = RUN_EXAMPLES, override_usage = "mendline run [OPTIONS] -- <COMMAND> [ARGUMENTS]...\n       mendline run [OPTIONS] <URL>\n       mendline run [OPTIONS] <NAME>")]
pub(crate) struct RunOptions {
    /// Name of the server in logs and errors [default: from the command or the host]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<Name>,

    /// Messages on stderr: off, error, warn, info or debug [default: $MENDLINE_LOG, else info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,

    #[command(flatten)]
    pub(crate) log_files: LogFileOptions,

    #[command(flatten)]
    pub(crate) server: ServerFlags,

    #[command(flatten)]
    pub(crate) metrics: MetricsFlags,

    /// `auto`: use a running `mendline serve` that has the server of this name; without one, run it here
    #[arg(long, value_name = "HOW", requires = "target", hide_possible_values = true)]
    pub(crate) via: Option<Via>,

    /// Member that the entry did not have before `wrap`; for `unwrap`, ignored here
    #[arg(long, value_name = "MEMBER", hide = true)]
    pub(crate) entry_without: Vec<String>,

    /// Member that held the URL before `wrap`; for `unwrap`, ignored here
    #[arg(long, value_name = "MEMBER", hide = true)]
    pub(crate) entry_url: Option<String>,

    /// URL of the server, or its name in the configuration file
    #[arg(value_name = "URL|NAME", conflicts_with_all = ["command", "url_env"])]
    pub(crate) target: Option<String>,

    /// Command that starts the server, and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["config", "url_env"])]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) policies: PolicyFlags,

    /// The configuration file that has a server with the name of the command, which was given without `--`
    #[arg(skip)]
    pub(crate) also_configured_in: Option<PathBuf>,

    /// Print help with every option
    #[arg(id = "help_all", long = "help-all", action = ArgAction::HelpShort, help_heading = Resettable::Reset)]
    _help_all: Option<bool>,
}

/// The way to a server of the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// Through a gateway of this user that has the server, else directly.
    Auto,
}

impl RunOptions {
    /// Returns what the command line says about the server.
    pub(crate) fn line(&self) -> Line<'_> {
        Line {
            verb: "run",
            server: &self.server,
            name: self.name.as_ref(),
            target: self.target.as_deref(),
            command: &self.command,
            policies: Some(&self.policies),
        }
    }
}

const SERVE_EXAMPLES: &str = "\
Examples:
  mendline serve                                      every server of the configuration file, at /mcp/NAME
  mendline serve https://example.com/mcp              one server, at /mcp
  mendline serve -- npx -y @modelcontextprotocol/server-everything

MCP clients connect to http://127.0.0.1:7337/mcp/NAME; clients of 2024-11-05 to /sse/NAME.";

/// Options of `mendline serve`.
#[derive(Args)]
#[command(after_help = SERVE_EXAMPLES, override_usage = "mendline serve [OPTIONS]\n       mendline serve [OPTIONS] <URL|NAME>\n       mendline serve [OPTIONS] -- <COMMAND> [ARGUMENTS]...")]
pub(crate) struct ServeOptions {
    /// Address to listen on; on any other than a loopback address every request needs a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7337")]
    pub(crate) listen: std::net::SocketAddr,

    #[command(flatten)]
    pub(crate) access: AccessOptions,

    #[command(flatten)]
    pub(crate) run: RunOptions,
}

const WRAP_EXAMPLES: &str = "\
Examples:
  mendline wrap                             every client that is found, after showing what changes
  mendline wrap --client cursor --dry-run   only show it
  mendline wrap --server github --yes       one server, in every client, without confirmation
  mendline wrap --scope project             the files that this project shares: .mcp.json and the like
  mendline wrap --file ./mcp.json           any file with servers in it

Clients: claude-code, claude-desktop, cursor, vscode, codex, gemini, opencode, windsurf, cline, roo,
zed, goose, continue, junie.
`mendline unwrap` restores every file byte for byte, from the entries alone.
Exit codes: 0 ok or nothing to do, 1 a named server or file was left unchanged, 2 wrong usage, 3 unknown name or nothing found.";

#[derive(Args)]
#[command(after_help = WRAP_EXAMPLES)]
pub(crate) struct WrapOptions {
    #[command(flatten)]
    pub(crate) which: WhichServers,

    /// Program to write into the entries [default: this one, if it is installed; the launcher, if one has started it]
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
}

const UNWRAP_EXAMPLES: &str = "\
Examples:
  mendline unwrap                           every client that is found, after showing what changes
  mendline unwrap --client codex --dry-run  only show it
  mendline unwrap --server github --yes     one server, in every client, without confirmation
  mendline unwrap --file ./mcp.json         any file with wrapped servers in it
  mendline unwrap --clean                   and delete the backups that wrap and unwrap have left

Later changes of an entry are kept where its original form has a place for them; others are listed.
Exit codes: 0 ok or nothing to do, 1 a named server or file was left unchanged, 2 wrong usage, 3 unknown name or nothing found.";

#[derive(Args)]
#[command(after_help = UNWRAP_EXAMPLES)]
pub(crate) struct UnwrapOptions {
    #[command(flatten)]
    pub(crate) which: WhichServers,

    /// Also delete the backups beside these files: they hold old contents, including credentials
    #[arg(long, conflicts_with = "server")]
    pub(crate) clean: bool,
}

/// Selection of files and servers, and confirmation.
#[derive(Args)]
pub(crate) struct WhichServers {
    /// Client whose files to change; may be repeated [default: all that are found]
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Vec<String>,

    /// Files to change: user, local (Claude Code, this directory) or project (shared with others); may be repeated
    /// [default: user and local]
    #[arg(long, value_name = "SCOPE", value_enum, hide_possible_values = true)]
    pub(crate) scope: Vec<Scope>,

    /// File of any client, and no other; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["client", "scope"])]
    pub(crate) file: Vec<PathBuf>,

    /// Server by its name, and no other; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Vec<String>,

    /// Show the changes, and write nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  mendline check                        the file that `mendline run NAME` uses
  mendline check ~/.cursor/mcp.json     the file of a client

Next: `mendline run NAME` runs one of its servers, `mendline schema` prints a schema for your editor.
Exit codes: 0 valid, 2 invalid.";

#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub(crate) struct CheckOptions {
    /// Configuration file [default: $MENDLINE_CONFIG, else config.json in the user's configuration directory for
    /// mendline]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

const SCHEMA_EXAMPLES: &str = "\
Examples:
  mendline schema > mendline.schema.json    then \"$schema\": \"./mendline.schema.json\" in the file
  mendline schema --table                   every key with its default, in Markdown";

#[derive(Args)]
#[command(after_help = SCHEMA_EXAMPLES)]
pub(crate) struct SchemaOptions {
    /// Print the keys as a Markdown table instead
    #[arg(long)]
    pub(crate) table: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
