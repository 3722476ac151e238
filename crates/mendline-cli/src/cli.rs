//! The command line as it is written: every flag with its words, its parser and its complaint.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mendline::observe::log::LogLevel;
use mendline_config::Name;

use crate::choices::{Choices, duration};
use crate::demo_server::temper::Temper;
use crate::log_files::LogFileOptions;
use crate::logs::LogsOptions;
use crate::wrap::clients::Scope;

/// Exit code: a negative result, such as a server that never became ready.
pub(crate) const NEGATIVE: u8 = 1;

/// Exit code: there is nothing of that name.
pub(crate) const UNKNOWN: u8 = 3;

/// Exit code: a person has to log in, or to provide a credential.
pub(crate) const NEEDS_LOGIN: u8 = 6;

/// Exit code: the command line or the configuration cannot be carried out as written.
pub(crate) const USAGE: u8 = 2;

/// Keeps MCP connections alive.
///
/// Mendline stands between an MCP client and an MCP server. When the server dies, it is started again, the session is
/// restored, and calls that can safely be repeated are; every other call is answered in time with what is known about it.
#[derive(Parser)]
#[command(name = "mendline", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one MCP server behind a connection that mends itself
    Run(Box<RunOptions>),
    /// Say what is wrong with a configuration file, and what it means
    Check(CheckOptions),
    /// Print the JSON Schema of the configuration file, for editors
    Schema(SchemaOptions),
    /// Make a client's configured servers go through Mendline
    Wrap(WrapOptions),
    /// Undo that: give a client's servers back as they were
    Unwrap(UnwrapOptions),
    /// Show what the servers said and what Mendline decided, by time
    Logs(LogsOptions),
    /// Show, in a few seconds and with nothing to set up, what breaks and what is mended
    Demo(DemoOptions),
    /// The server of the demonstration and of the tests
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

In a client's configuration:
  \"everything\": {
    \"command\": \"mendline\",
    \"args\": [\"run\", \"--\", \"npx\", \"-y\", \"@modelcontextprotocol/server-everything\"]
  }

Protocol goes through stdin and stdout; everything for people goes to stderr.
Signals: TERM and INT finish running calls and end, the second time at once; USR1 reconnects now;
HUP reads the configuration file again, which is also done by itself when it changes.
Exit codes: 0 ok, 1 the server never became ready, 2 wrong usage or configuration, 3 no server of
that name, 6 the server needs a login.";

#[derive(Args)]
#[command(after_help = RUN_EXAMPLES, override_usage = "mendline run [OPTIONS] -- <COMMAND> [ARGUMENTS]...\n       mendline run [OPTIONS] <URL>\n       mendline run [OPTIONS] <NAME>")]
pub(crate) struct RunOptions {
    /// What the server is called in logs and errors [default: taken from the command or the host]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<Name>,

    /// What is written to stderr: off, error, warn, info or debug [default: $MENDLINE_LOG, else info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,

    #[command(flatten)]
    pub(crate) log_files: LogFileOptions,

    /// How a server at a URL is spoken to: auto finds out
    #[arg(long, value_name = "auto|http|sse", value_enum, hide_possible_values = true)]
    pub(crate) transport: Option<TransportFlag>,

    /// A header for every request to the URL, as 'Name: value'; ${VAR} is taken from the environment; may be given several times
    #[arg(long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,

    /// A header whose value is in an environment variable, as NAME=VARIABLE; may be given several times
    #[arg(long, value_name = "NAME=VARIABLE")]
    pub(crate) header_env: Vec<String>,

    /// The environment variable that holds the URL, when the URL itself is a secret
    #[arg(long, value_name = "VARIABLE", conflicts_with_all = ["target", "command"])]
    pub(crate) url_env: Option<String>,

    /// What an entry did not have before `wrap`: for `unwrap`, and without meaning here
    #[arg(long, value_name = "MEMBER", hide = true)]
    pub(crate) entry_without: Vec<String>,

    /// How long a connection to the URL may take [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,

    /// The file in which a NAME is looked up [default: $MENDLINE_CONFIG, else config.json in the user's configuration
    /// directory for mendline]; a client's own file will do
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) config: Option<PathBuf>,

    /// Where the server lives, or what it is called in the configuration file, when it is not a command
    #[arg(value_name = "URL|NAME", conflicts_with = "command")]
    pub(crate) target: Option<String>,

    /// The server's command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) choices: Choices,
}

/// How a server at a URL is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TransportFlag {
    /// Found out: Streamable HTTP first, then legacy SSE.
    #[value(alias = "http-first", alias = "sse-first")]
    Auto,
    /// Streamable HTTP only.
    #[value(alias = "http-only", alias = "streamable-http", alias = "streamableHttp")]
    Http,
    /// Legacy HTTP+SSE only.
    #[value(alias = "sse-only")]
    Sse,
}

const WRAP_EXAMPLES: &str = "\
Examples:
  mendline wrap                             every client that is found, after showing what changes
  mendline wrap --client cursor --dry-run   only show it
  mendline wrap --server github --yes       one server, in every client, without a question
  mendline wrap --scope project             the files that this project shares: .mcp.json and the like
  mendline wrap --file ./mcp.json           any file with servers in it

Clients: claude-code, claude-desktop, cursor, vscode, codex.
`mendline unwrap` gives everything back byte for byte, from the entries alone.
Exit codes: 0 ok or nothing to do, 1 something asked for was left, 2 wrong usage, 3 unknown name or nothing found.";

#[derive(Args)]
#[command(after_help = WRAP_EXAMPLES)]
pub(crate) struct WrapOptions {
    #[command(flatten)]
    pub(crate) which: WhichServers,

    /// The program to write into the entries, wherever it is [default: this one, if it is installed]
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
}

const UNWRAP_EXAMPLES: &str = "\
Examples:
  mendline unwrap                           every client that is found, after showing what changes
  mendline unwrap --client codex --dry-run  only show it
  mendline unwrap --server github --yes     one server, in every client, without a question
  mendline unwrap --file ./mcp.json         any file with wrapped servers in it

What was changed in an entry since it was wrapped stays, where the entry has a place for it; what has none is named.
Exit codes: 0 ok or nothing to do, 1 something asked for was left, 2 wrong usage, 3 unknown name or nothing found.";

#[derive(Args)]
#[command(after_help = UNWRAP_EXAMPLES)]
pub(crate) struct UnwrapOptions {
    #[command(flatten)]
    pub(crate) which: WhichServers,
}

/// Which files and servers are meant, and how much is asked.
#[derive(Args)]
pub(crate) struct WhichServers {
    /// A client whose files are meant; may be given several times [default: all that are found]
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Vec<String>,

    /// Which of a client's files: user, local (Claude Code, this directory) or project (shared with others); may be given
    /// several times [default: user and local]
    #[arg(long, value_name = "SCOPE", value_enum, hide_possible_values = true)]
    pub(crate) scope: Vec<Scope>,

    /// A file of any client, and no other; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["client", "scope"])]
    pub(crate) file: Vec<PathBuf>,

    /// A server by its name, and no other; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Vec<String>,

    /// Show what would change, and write nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Args)]
#[command(after_help = "Exit codes: 0 it can be used, 2 it cannot.")]
pub(crate) struct CheckOptions {
    /// The file [default: $MENDLINE_CONFIG, else config.json in the user's configuration directory for mendline]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct SchemaOptions {
    /// Print the keys as a table in Markdown instead
    #[arg(long)]
    pub(crate) table: bool,
}

#[derive(Args)]
pub(crate) struct DemoOptions {
    /// How many calls are made under each fault
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(8..=1000))]
    pub(crate) calls: u32,
}

#[derive(Args)]
pub(crate) struct DemoServerOptions {
    /// A way to misbehave, as NAME or NAME=VALUE; may be given several times
    #[arg(long, value_name = "TEMPER")]
    pub(crate) temper: Vec<Temper>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
