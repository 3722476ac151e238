//! Which server is meant and how it is reached, as every command that talks to one takes it.
//!
//! A command line names a server by its URL, by its name in the configuration file, or by the command that starts it. What
//! else is said about the way to it is the same for all commands and stands here; where the server itself stands on the
//! line is each command's own business, because not every one of them has room for it in the same place.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mendline_config::Name;

use crate::choices::{Choices, duration};

/// The flags about the way to a server.
#[derive(Args)]
pub(crate) struct ServerFlags {
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
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) url_env: Option<String>,

    /// Lets credentials go to an http:// URL on another machine, unencrypted: for a network that is trusted
    #[arg(long)]
    pub(crate) allow_http: bool,

    /// How long a connection to the URL may take [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,

    /// The file in which a NAME is looked up [default: $MENDLINE_CONFIG, else config.json in the user's configuration
    /// directory for mendline]; a client's own file will do
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
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

/// All that a command line says about a server.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// What is done with it, as the command line has it.
    pub(crate) verb: &'static str,
    /// The way to it.
    pub(crate) server: &'a ServerFlags,
    /// What it is to be called.
    pub(crate) name: Option<&'a Name>,
    /// Its URL, or its name in the configuration file.
    pub(crate) target: Option<&'a str>,
    /// Its command.
    pub(crate) command: &'a [OsString],
    /// The policies for it, for commands that let one choose.
    pub(crate) choices: Option<&'a Choices>,
}

impl<'a> Line<'a> {
    /// The name under which it is looked up in a file, if it is not a URL or a command.
    pub(crate) fn by_name(&self) -> Option<&'a str> {
        self.target.filter(|target| !target.contains("://") && !target.contains("${"))
    }
}
