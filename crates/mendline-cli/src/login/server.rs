//! The server of a command about logins: by its URL, by its name in the configuration file, or by its name in the file
//! of a client.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use mendline_config::{Environment, Name, Source, load};

use crate::cli::UNKNOWN;
use crate::login_flags::LoginFlags;
use crate::named::{Refusal, locate, resolve};
use crate::plan::{Address, Endpoint, Plan};
use crate::server_flags::{Line, ServerFlags};
use crate::untrusted_text::one_line;
use crate::wrap::clients::ClientDirectories;

/// The flags of all commands about logins.
#[derive(Args)]
pub(crate) struct LoginServer {
    #[command(flatten)]
    login: LoginFlags,

    /// Environment variable that holds the URL, if the URL itself is a secret
    #[arg(long, value_name = "VARIABLE", conflicts_with = "target")]
    url_env: Option<String>,

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
        self.login.words()
    }

    /// Returns the plan of the server with this URL or name.
    pub(crate) fn resolve(&self, verb: &'static str, target: Option<&str>) -> Result<Plan, Refusal> {
        let flags = ServerFlags {
            transport: None,
            header: Vec::new(),
            header_env: Vec::new(),
            url_env: self.url_env.clone(),
            allow_http: false,
            connect_timeout: None,
            login: self.login.clone(),
            config: self.config.clone(),
        };
        let line = Line { verb, server: &flags, name: None, target, command: &[], policies: None };
        match (resolve(&line), line.by_name()) {
            (Ok((plan, _)), _) => Ok(plan),
            // A name that the configuration file does not have may be that of an entry of a client.
            (Err(refusal), Some(name)) if self.config.is_none() && is_unknown(&refusal) => {
                of_clients(name, &line)?.ok_or(refusal)
            }
            (Err(refusal), _) => Err(refusal),
        }
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

/// Returns whether the name is in no configuration file, or there is no such file.
fn is_unknown(refusal: &Refusal) -> bool {
    refusal.code == UNKNOWN || locate(None).is_err()
}

/// Looks for the name in the files of the clients. Several entries with the name must have the same URL.
fn of_clients(name: &str, line: &Line<'_>) -> Result<Option<Plan>, Refusal> {
    let Ok(directories) = ClientDirectories::of_process() else { return Ok(None) };
    let mut found: Option<(Plan, PathBuf)> = None;
    for location in directories.locations() {
        let Ok(source) = Source::read(&location.path) else { continue };
        let loaded = load(source, false, Environment::of_process());
        for server in &loaded.servers {
            let Ok(plan) = Plan::of_server(server, Some(line)) else { continue };
            // A server that runs without a name has that of its host.
            let is_host = || Name::of_origin(&plan.upstream.place).to_string() == name;
            let is_url = matches!(plan.endpoint, Endpoint::Remote(_));
            if server.name != name && server.policies.name != name && !(is_url && is_host()) {
                continue;
            }
            match &found {
                Some((other, file)) if other.endpoint != plan.endpoint => {
                    let (first, second) = (one_line(&file.display().to_string()), location.path.display().to_string());
                    let words = format!(
                        "{name:?} is in {first} and, with other settings, in {}; choose one with --config FILE",
                        one_line(&second)
                    );
                    return Err(Refusal::from(words));
                }
                Some(_) => {}
                None => found = Some((plan, location.path.clone())),
            }
        }
    }
    Ok(found.map(|(plan, _)| plan))
}
