//! The plan of a server: its endpoint and policies, from a command line or from an entry of a file.
//!
//! Flags override an entry of the configuration file. An entry that already runs `mendline run …` is read as that
//! command line and not run, because one Mendline around another would repeat every recovery.

pub(crate) mod credential;
pub(crate) mod exposure;
mod headers;
pub(crate) mod secrets;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use mendline::Builder;
use mendline::builder::ServerHandle;
use mendline::catalogue::Identity;
use mendline::decisions::config::{Dialect, Transport};
use mendline::decisions::{Secret, UpstreamConfig, defaults};
use mendline::observe::redact::Redactor;
use mendline::os::processes::OWN_PROGRAM;
use mendline::transport;
use mendline::transport::child::ChildCommand;
use mendline::transport::guard::Guard;
use mendline::transport::http::{ClientCertificate, ProxyRules, Target, TlsOptions, UrlFault};
use mendline_config::{self as config, Auth, Name, Owner, Server, expand, is_plain_variable_name, is_variable_name};
use mendline_oauth::LoginUi;
use mendline_wire::Limits;

pub(crate) use self::headers::check_headers;
use self::headers::headers;
use crate::GUARD;
use crate::bare_command;
use crate::cli::RunOptions;
use crate::help::conceal;
use crate::server_flags::{Line, TransportFlag};
use crate::untrusted_text::one_line;

/// The environment variable for further certificate authorities, as in Node.
const EXTRA_ROOTS: &str = "NODE_EXTRA_CA_CERTS";
/// The environment variable for the file of the system's authorities, as in OpenSSL.
const STORE: &str = "SSL_CERT_FILE";

/// A server: its endpoint and its policies.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) upstream: UpstreamConfig,
    pub(crate) endpoint: Endpoint,
    pub(crate) limits: Limits,
}

/// The endpoint of a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Child(ChildCommand),
    Remote(Address),
}

impl Endpoint {
    /// Returns the endpoint for the engine.
    pub(crate) fn open(&self) -> Result<transport::Endpoint, String> {
        Ok(match self {
            Endpoint::Child(command) => transport::Endpoint::Child(command.clone().found_by_login_shell()),
            Endpoint::Remote(address) => transport::Endpoint::Remote(Box::new(address.target()?)),
        })
    }

    /// Returns whether both are commands, or both are URLs.
    pub(crate) fn is_same_kind(&self, other: &Endpoint) -> bool {
        matches!(self, Endpoint::Child(_)) == matches!(other, Endpoint::Child(_))
    }
}

/// A server at a URL, as it was written.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    url: Secret,
    /// True if a variable holds the URL or a part of it.
    is_hidden: bool,
    headers: Vec<(String, Secret)>,
    connect_timeout: Option<Duration>,
    /// True if credentials may go to another machine unencrypted.
    allow_http: bool,
    /// Its certificates.
    tls: config::Tls,
    /// The source of the credential, as it was written.
    auth: Option<Auth>,
    /// True if a command line names the URL itself.
    is_by_url: bool,
    /// True if the `Authorization` header comes from the command line, which overrides `auth` of the entry.
    header_wins: bool,
}

impl Plan {
    /// Builds the plan of a command line.
    pub(crate) fn of_flags(line: &Line<'_>) -> Result<Plan, String> {
        Plan::of_line(line, &variable)
    }

    /// Builds the plan of a command line with this lookup of variables.
    fn of_line(line: &Line<'_>, variable: Lookup<'_>) -> Result<Plan, String> {
        let mut plan = match (line.target, &line.server.url_env) {
            (Some(written), _) => {
                remote(expand(written, variable).map_err(|fault| fault.to_string())?, written, line, variable)?
            }
            (None, Some(name)) => {
                if !is_variable_name(name) {
                    return Err(URL_ENV_FORM.to_owned());
                }
                remote(held_by("--url-env", name, variable)?, URL_IN_VARIABLE, line, variable)?
            }
            (None, None) => child(line)?,
        };
        plan.apply_policies(line)?;
        plan.set_credential_kind();
        Ok(plan)
    }

    /// Builds the plan of an entry of the configuration file; the command line overrides it.
    pub(crate) fn of_server(server: &Server, line: Option<&Line<'_>>) -> Result<Plan, String> {
        let limits = Limits {
            message_bytes: server.message_bytes.unwrap_or(Limits::default().message_bytes),
            ..Limits::default()
        };
        let mut plan = match &server.endpoint {
            config::Endpoint::Command { program, arguments, environment, directory } => {
                let mut command = ChildCommand::new(program, arguments.iter().map(OsString::from));
                command.environment = plain(environment);
                command.directory.clone_from(directory);
                Plan { upstream: server.policies.clone(), endpoint: Endpoint::Child(command), limits }
            }
            config::Endpoint::Url { url, headers, connect_timeout, allow_http, tls, auth, .. } => {
                let (url, headers, tls, auth) = (url.clone(), headers.clone(), tls.clone(), auth.clone());
                let (connect_timeout, allow_http) = (*connect_timeout, *allow_http);
                let (is_hidden, is_by_url, header_wins) = (false, false, false);
                let address =
                    Address { url, is_hidden, headers, connect_timeout, allow_http, tls, auth, is_by_url, header_wins };
                Plan { upstream: server.policies.clone(), endpoint: Endpoint::Remote(address), limits }
            }
            config::Endpoint::Wrapped { arguments, environment, directory } => {
                let mut plan = unwrapped(server, arguments, environment)?;
                if let Endpoint::Child(command) = &mut plan.endpoint {
                    command.environment = plain(environment);
                    command.directory.clone_from(directory);
                }
                plan
            }
        };
        if let Some(line) = line {
            plan.overrule(line)?;
        }
        if let Endpoint::Remote(address) = &plan.endpoint {
            address.check_exposure().map_err(|why| format!("`{}`: {why}", server.name))?;
            // Settings of this machine may be invalid, too; that is reported before anything starts.
            address.target()?;
        }
        plan.set_credential_kind();
        Ok(plan)
    }

    /// Returns a builder with this server and the guard of this program.
    /// With `person`, a login may open the browser by itself.
    pub(crate) fn builder(
        self,
        redactor: Redactor,
        person: Option<Arc<dyn LoginUi>>,
    ) -> Result<(Builder, ServerHandle), String> {
        let mut builder = Plan::empty_builder(self.limits.clone(), redactor.clone());
        let server = self.add_to(&mut builder, redactor, person)?;
        Ok((builder, server))
    }

    /// Returns a builder without servers.
    pub(crate) fn empty_builder(limits: Limits, redactor: Redactor) -> Builder {
        let mut builder = Builder::new(limits);
        builder.redactor(redactor);
        builder.guard(|| Guard::start(OWN_PROGRAM, vec![GUARD.into()]));
        builder
    }

    /// Adds the server to a builder.
    pub(crate) fn add_to(
        self,
        builder: &mut Builder,
        redactor: Redactor,
        person: Option<Arc<dyn LoginUi>>,
    ) -> Result<ServerHandle, String> {
        let source = self.credential_source(redactor, person)?;
        let server = builder.server(self.upstream, self.endpoint.open()?);
        if let Some(source) = source {
            builder.credential(server.id, source);
        }
        Ok(server)
    }

    /// Returns the identity of the server for its cache: the endpoint and the credentials.
    pub(crate) fn identity(&self) -> Identity {
        match &self.endpoint {
            Endpoint::Child(command) => {
                let words: Vec<&OsString> = std::iter::once(&command.program).chain(&command.arguments).collect();
                let here = || std::env::current_dir().ok();
                let identity = Identity::child(&words, command.directory.clone().or_else(here).as_deref());
                // The last variable of a name wins.
                let variables: BTreeMap<_, _> =
                    std::env::vars_os().chain(command.environment.iter().cloned()).collect();
                let text =
                    |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
                identity.with_environment(variables.into_iter().filter_map(text))
            }
            Endpoint::Remote(address) => {
                let identity = Identity::remote(address.url.expose());
                let identity =
                    address.headers.iter().fold(identity, |identity, (name, value)| identity.with(name, value));
                match &address.auth {
                    // Its text has no secrets.
                    Some(auth) => identity.with("auth", &Secret::new(format!("{auth:?}"))),
                    None => identity,
                }
            }
        }
    }

    /// Applies the command line over the entry.
    fn overrule(&mut self, line: &Line<'_>) -> Result<(), String> {
        match &mut self.endpoint {
            Endpoint::Child(_) => refuse_url_flags(line)?,
            Endpoint::Remote(address) => {
                address.auth = line.server.login.apply(address.auth.take(), &variable)?;
                for (name, value) in headers(line, &variable)? {
                    address.header_wins |= name.eq_ignore_ascii_case("authorization");
                    address.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
                    address.headers.push((name, value));
                }
                address.connect_timeout = line.server.connect_timeout.or(address.connect_timeout);
                address.allow_http |= line.server.allow_http;
                if let Some(flag) = line.server.transport {
                    self.upstream.transport = Transport::Http(dialect(Some(flag)));
                }
            }
        }
        if let Some(name) = line.name {
            self.upstream.name = name.to_string();
        }
        self.apply_policies(line)
    }

    /// Applies the policy flags of a command line.
    fn apply_policies(&mut self, line: &Line<'_>) -> Result<(), String> {
        let Some(policies) = line.policies else { return Ok(()) };
        let by_key = policies.by_key()?;
        if let Some(most) = by_key.message_bytes() {
            self.limits.message_bytes = most;
        }
        if let Endpoint::Remote(address) = &mut self.endpoint {
            address.connect_timeout =
                line.server.connect_timeout.or(by_key.connect_timeout()).or(address.connect_timeout);
        }
        policies.apply(&mut self.upstream)
    }
}

/// Returns the name of the entry in a file that an entry runs by `mendline run NAME`, and that file if it is named.
pub(crate) fn reference(server: &Server) -> Option<(String, Option<PathBuf>)> {
    let config::Endpoint::Wrapped { arguments, .. } = &server.endpoint else { return None };
    let options = wrapped_line(server, arguments).ok()?;
    let name = options.target.filter(|target| !target.contains("://") && !target.contains("${"))?;
    Some((name, options.server.config))
}

/// Parses the arguments of an entry that runs Mendline itself.
fn wrapped_line(server: &Server, arguments: &[String]) -> Result<RunOptions, String> {
    let mut arguments = arguments.to_vec();
    if let Some(at) = bare_command::find(&arguments, &Wrapped::command()) {
        arguments.insert(at, bare_command::SEPARATOR.to_owned());
    }
    let line = ["mendline run"].into_iter().chain(arguments.iter().map(String::as_str));
    let parsed = Wrapped::try_parse_from(line).map_err(|mut error| {
        conceal(&mut error, &[]);
        let said = error.to_string();
        // Only its first line: the rest is help for another command line.
        format!(
            "`{}` runs Mendline, with arguments that it does not take: {}",
            one_line(&server.name),
            said.lines().next().unwrap_or_default()
        )
    })?;
    Ok(parsed.options)
}

/// Builds the plan of an entry that runs Mendline itself, as the client would run it.
fn unwrapped(server: &Server, arguments: &[String], environment: &[(String, Secret)]) -> Result<Plan, String> {
    let options = wrapped_line(server, arguments)?;
    if options.target.as_deref().is_some_and(|target| !target.contains("://")) {
        return Err(format!(
            "`{}` runs `mendline run` with a name, which leads back to a file like this one",
            one_line(&server.name)
        ));
    }
    // The variables are those that a client would set.
    let own =
        |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.expose().to_owned());
    let mut plan = Plan::of_line(&options.line(), &|name| own(name).or_else(|| variable(name)))
        .map_err(|why| format!("`{}`: {why}", one_line(&server.name)))?;
    if let Endpoint::Remote(address) = &mut plan.endpoint {
        address.is_by_url = false;
    }
    let mut upstream = plan.upstream;
    upstream.name.clone_from(&server.policies.name);
    if server.owner == Owner::OtherProgram {
        // The client passes nothing but the arguments on.
        return Ok(Plan { upstream, ..plan });
    }
    let mut own = UpstreamConfig { transport: upstream.transport, place: upstream.place, ..server.policies.clone() };
    if own.transport != Transport::Child && own.timeouts.handshake == defaults::HANDSHAKE {
        // The entry was read as a command, which has a longer limit.
        own.timeouts.handshake = defaults::HANDSHAKE_HTTP;
    }
    let mut plan = Plan { upstream: own, ..plan };
    plan.limits.message_bytes = server.message_bytes.unwrap_or(plan.limits.message_bytes);
    plan.apply_policies(&options.line()).map_err(|why| format!("`{}`: {why}", one_line(&server.name)))?;
    Ok(plan)
}

#[derive(Parser)]
struct Wrapped {
    #[command(flatten)]
    options: RunOptions,
}

/// Rejects flags that only a server at a URL has.
fn refuse_url_flags(line: &Line<'_>) -> Result<(), String> {
    if !line.server.header.is_empty() || !line.server.header_env.is_empty() {
        return Err(NO_HEADERS.to_owned());
    }
    match line.server.login.first() {
        Some(flag) => {
            Err(format!("{flag} is for servers at a URL; a command gets its secrets through its environment"))
        }
        None => Ok(()),
    }
}

const NO_HEADERS: &str = "--header is for servers at a URL; a command gets its secrets through its environment";

fn child(line: &Line<'_>) -> Result<Plan, String> {
    let [program, arguments @ ..] = line.command else {
        return Err(NO_COMMAND.to_owned());
    };
    // A header without quotes puts its value in the place of the command.
    check_headers(line)?;
    refuse_url_flags(line)?;
    let name = line.name.cloned().unwrap_or_else(|| Name::of_command(program, arguments)).to_string();
    let upstream = UpstreamConfig::child(name, program.to_string_lossy());
    let command = ChildCommand::new(program.clone(), arguments.to_vec());
    Ok(Plan { upstream, endpoint: Endpoint::Child(command), limits: Limits::default() })
}

/// Placeholder for a URL in the variable of `--url-env`.
const URL_IN_VARIABLE: &str = "";

/// Builds the plan of a server at a URL. Values of variables are not shown: an invalid URL is shown as it was written.
fn remote(url: String, written: &str, line: &Line<'_>, variable: Lookup<'_>) -> Result<Plan, String> {
    if let Err(fault) = Target::parse(&url)
        && url != written
    {
        let what = match fault {
            UrlFault::Scheme(_) => "the scheme must be http or https".to_owned(),
            fault => fault.to_string(),
        };
        let shown = if written == URL_IN_VARIABLE { "--url-env".to_owned() } else { without_secrets(written) };
        return Err(format!("{what}: {shown} (what the variable holds is not shown)"));
    }
    let (headers, connect_timeout) = (headers(line, variable)?, line.server.connect_timeout);
    let (is_hidden, allow_http) = (url != written, line.server.allow_http);
    let auth = line.server.login.apply(None, variable)?;
    if let Some(flag) = line.server.login.first().filter(|_| has_authorization(&headers)) {
        return Err(format!("{flag} is for a login, and the Authorization header is a credential already; remove one"));
    }
    let url = Secret::new(url);
    let (is_by_url, header_wins) = (true, false);
    let tls = config::Tls::default();
    let address = Address { url, is_hidden, headers, connect_timeout, allow_http, tls, auth, is_by_url, header_wins };
    let target = address.target()?;
    let name = line.name.cloned().unwrap_or_else(|| Name::of_origin(&target.origin().to_string())).to_string();
    let upstream = UpstreamConfig::http(name, target.origin().to_string(), dialect(line.server.transport));
    Ok(Plan { upstream, endpoint: Endpoint::Remote(address), limits: Limits::default() })
}

fn has_authorization(headers: &[(String, Secret)]) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

impl Address {
    /// Rejects a credential that would go to another machine unencrypted, unless that is allowed.
    fn check_exposure(&self) -> Result<(), String> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
        match exposure::exposed(self.url.expose(), headers) {
            Some(what) if !self.allow_http => Err(format!(
                "{what}; use https://, or --allow-http if the network is trusted (`\"allowHttp\": true` in a file)"
            )),
            _ => self.check_source_exposure(),
        }
    }

    /// Returns the target to dial, with the proxies and authorities of this machine.
    pub(crate) fn target(&self) -> Result<Target, String> {
        let url = self.url.expose();
        let mut target = Target::parse(url).map_err(|fault| format!("{fault}: {}", without_secrets(url)))?;
        for (name, value) in &self.headers {
            target = target.header(name, value).map_err(|fault| fault.to_string())?;
        }
        self.check_exposure()?;
        if let Some(timeout) = self.connect_timeout {
            target = target.connect_timeout(timeout);
        }
        let rules = ProxyRules::from_variables(std::env::vars()).map_err(|fault| fault.to_string())?;
        Ok(target.proxies(&rules).tls(self.tls_options()?))
    }

    /// Returns the trusted authorities of this machine and of this server, and the certificate of the client. The latter
    /// goes to this server only, not to its authorization server.
    fn tls_options(&self) -> Result<TlsOptions, String> {
        let mut options = self.authorities()?;
        if let Some(files) = &self.tls.client {
            let read = ClientCertificate::read(&files.certificate, &files.key);
            options.present(read.map_err(|fault| format!("`tls`: {fault}"))?);
        }
        Ok(options)
    }

    /// Returns the trusted authorities of this machine and of this server.
    fn authorities(&self) -> Result<TlsOptions, String> {
        let mut options = extra_roots()?;
        if let Some(path) = &self.tls.authority {
            let failed = |why: &dyn std::fmt::Display| format!("`tls.authority`: {}: {why}", path.display());
            let pem = std::fs::read(path).map_err(|error| failed(&error))?;
            options.trust(&pem).map_err(|fault| failed(&fault))?;
        }
        Ok(options)
    }

    /// Returns the names of the headers, which are no secret.
    pub(crate) fn header_names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }
}

/// Lookup of the value of a variable.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the value of the variable that a flag names. The name is shown only if it is certainly one: a user who
/// confuses the flags may have written the secret in its place.
fn held_by(flag: &str, name: &str, variable: Lookup<'_>) -> Result<String, String> {
    variable(name).ok_or_else(|| match is_plain_variable_name(name) {
        true => format!("{flag}: the variable {name} is not set"),
        false => format!("{flag}: the variable that it names is not set (its name is not shown, it may be a secret)"),
    })
}

const URL_ENV_FORM: &str = "--url-env takes the name of an environment variable that holds the URL, not the URL

  mendline run --url-env MY_URL

What was written is not shown, because it may hold a secret.";

fn plain(environment: &[(String, Secret)]) -> Vec<(OsString, OsString)> {
    environment.iter().map(|(name, value)| (name.into(), value.expose().into())).collect()
}

fn dialect(flag: Option<TransportFlag>) -> Dialect {
    match flag {
        None | Some(TransportFlag::Auto) => Dialect::Auto,
        Some(TransportFlag::Http) => Dialect::Streamable,
        Some(TransportFlag::Sse) => Dialect::Sse,
    }
}

/// Reads the authorities that the operator trusts beyond the system's.
fn extra_roots() -> Result<TlsOptions, String> {
    let mut options = TlsOptions::default();
    if let Some(path) = std::env::var_os(EXTRA_ROOTS).filter(|path| !path.is_empty()) {
        let shown = path.to_string_lossy();
        let pem = std::fs::read(&path).map_err(|error| format!("{EXTRA_ROOTS}: {shown} cannot be read: {error}"))?;
        options.trust(&pem).map_err(|fault| format!("{EXTRA_ROOTS}: {shown}: {fault}"))?;
    }
    if let Some(path) = std::env::var_os(STORE).filter(|path| !path.is_empty()) {
        options.store(path.into());
    }
    Ok(options)
}

const NO_COMMAND: &str = "there is no server to run

  mendline run -- npx -y @modelcontextprotocol/server-everything
  mendline run https://mcp.example.com/mcp
  mendline run notes

Everything after `--` is the server's command; a name is looked up in the configuration file. `mendline run --help` says
more.";

/// Returns a URL without possible secrets: its path and query, and a user's name and password.
fn without_secrets(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = shown.split_once("://") else { return "…".to_owned() };
    // A password may hold a slash that should have been escaped.
    let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("…@", rest));
    match rest.split_once('/') {
        Some((host, path)) => format!("{scheme}://{user}{host}/{}", if path.is_empty() { "" } else { "…" }),
        None => format!("{scheme}://{user}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_url_is_shown_without_path_query_and_user() {
        for (url, shown) in [
            ("https://me:s3cret@x.test/s/key?token=t#f", "https://…@x.test/…"),
            ("https://me:s3/cret@x.test/", "https://…@x.test/"),
            ("ftp://x.test/key", "ftp://x.test/…"),
            ("me:s3cret@x.test", "…"),
            ("https://x.test", "https://x.test"),
        ] {
            assert_eq!(without_secrets(url), shown, "{url}");
        }
    }
}
