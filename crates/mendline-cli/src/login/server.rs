//! The server of a command about logins: by its URL, by its name in the configuration file, or by its name in the file
//! of a client.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use crate::login_flags::LoginFlags;
use crate::named::{Refusal, resolve};
use crate::plan::{Address, Endpoint, Plan};
use crate::server_flags::{Line, ServerFlags};

/// The flags of all commands about logins.
#[derive(Args)]
pub(crate) struct LoginServer {
    #[command(flatten)]
    login: LoginFlags,

    /// Environment variable that holds the URL, if the URL itself is a secret
    #[arg(long, value_name = "VARIABLE", conflicts_with = "target")]
    url_env: Option<String>,

    /// Allow credentials to go unencrypted to an http:// URL on another machine
    #[arg(long)]
    allow_http: bool,

    /// Configuration file of the server NAME; a client's own file works, too [default: $MENDLINE_CONFIG, else
    /// config.json in the user's configuration directory for mendline, else the files of the clients]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print help with every option
    #[arg(id = "help_all", long = "help-all", action = ArgAction::HelpShort)]
    _help_all: Option<bool>,
}

impl LoginServer {
    /// Returns the flags of the login as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let allow = self.allow_http.then(|| "--allow-http".to_owned());
        self.login.words().into_iter().chain(allow).collect()
    }

    /// Returns the plan of the server with this URL or name.
    pub(crate) fn resolve(&self, verb: &'static str, target: Option<&str>) -> Result<Plan, Refusal> {
        let flags = ServerFlags {
            transport: None,
            header: Vec::new(),
            header_env: Vec::new(),
            url_env: self.url_env.clone(),
            allow_http: self.allow_http,
            connect_timeout: None,
            login: self.login.clone(),
            config: self.config.clone(),
        };
        let line = Line { verb, server: &flags, name: None, target, command: &[], policies: None };
        resolve(&line).map(|(plan, _)| plan)
    }
}

/// Returns the address of a server at a URL.
pub(crate) fn address(plan: &Plan) -> Result<&Address, Refusal> {
    match &plan.endpoint {
        Endpoint::Remote(address) => Ok(address),
        Endpoint::Child(_) => Err(Refusal::from(format!(
            "{:?} is a command, which gets its credential from `env`; a login is for servers at a URL",
            plan.upstream.name
        ))),
    }
}
