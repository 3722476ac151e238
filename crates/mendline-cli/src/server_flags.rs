//! Flags that select a server and its connection, for all commands that use one.
//!
//! A command line names a server by its URL, by its name in the configuration file, or by the command that starts it.
//! The flags of the connection are the same for all commands; the position of the server on the line is not.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mendline_config::Name;

use crate::login_flags::LoginFlags;
use crate::policy_flags::{PolicyFlags, duration};

/// The flags of the connection to a server.
#[derive(Args)]
pub(crate) struct ServerFlags {
    /// Transport of a server at a URL; auto detects it
    #[arg(long, value_name = "auto|http|sse", value_enum, hide_possible_values = true)]
    pub(crate) transport: Option<TransportFlag>,

    /// Header for every request to the URL, as 'Name: value'; ${VAR} is expanded from the environment; may be repeated
    #[arg(long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,

    /// Header whose value is in an environment variable, as NAME=VARIABLE; may be repeated
    #[arg(long, value_name = "NAME=VARIABLE")]
    pub(crate) header_env: Vec<String>,

    /// Environment variable that holds the URL, if the URL itself is a secret
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) url_env: Option<String>,

    /// Allow credentials to go unencrypted to an http:// URL on another machine: for trusted networks
    #[arg(long)]
    pub(crate) allow_http: bool,

    /// Time limit of a connection attempt to the URL [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) login: LoginFlags,

    /// Configuration file of the server NAME; a client's own file works, too [default: $MENDLINE_CONFIG, else
    /// config.json in the user's configuration directory for mendline]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Values of `--transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TransportFlag {
    /// Detected: Streamable HTTP first, then legacy SSE.
    #[value(alias = "http-first", alias = "sse-first")]
    Auto,
    /// Streamable HTTP only.
    #[value(alias = "http-only", alias = "streamable-http", alias = "streamableHttp", alias = "streamable_http")]
    Http,
    /// Legacy HTTP+SSE only.
    #[value(alias = "sse-only")]
    Sse,
}

/// Everything that a command line says about a server.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// The subcommand.
    pub(crate) verb: &'static str,
    /// The flags of the connection.
    pub(crate) server: &'a ServerFlags,
    /// The name that the server gets.
    pub(crate) name: Option<&'a Name>,
    /// Its URL, or its name in the configuration file.
    pub(crate) target: Option<&'a str>,
    /// Its command.
    pub(crate) command: &'a [OsString],
    /// The policy flags, for commands that have them.
    pub(crate) policies: Option<&'a PolicyFlags>,
}

impl<'a> Line<'a> {
    /// Returns the name to look up in a file, if the server is neither a URL nor a command.
    pub(crate) fn by_name(&self) -> Option<&'a str> {
        self.target.filter(|target| !target.contains("://") && !target.contains("${"))
    }
}
