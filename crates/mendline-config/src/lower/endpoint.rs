//! The endpoint of a server: a program or a URL.

use std::path::PathBuf;
use std::time::Duration;

use mendline::decisions::config::Dialect;
use mendline::decisions::{Secret, UpstreamConfig};
use mendline::transport::http::{Target, UrlFault};

use super::Settings;
use super::auth::{auth, beside};
use crate::auth::Auth;
use crate::check::{CheckedValue, Checker, ENV, Pair, TypedValue};
use crate::env_file;
use crate::file::{Entry, Value, ValueKind};
use crate::finding::Finding;
use crate::invocation::start_of_arguments;
use crate::variables::expand;

/// The certificates of a server at a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The certificate of the client.
    pub client: Option<CertificatePaths>,
    /// A file with authorities that are trusted in addition to those of the system.
    pub authority: Option<PathBuf>,
}

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePaths {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key, which may be in the same file.
    pub key: PathBuf,
}

/// The endpoint of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A child process (stdio).
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Environment variables, in addition to those of Mendline.
        environment: Vec<(String, Secret)>,
        /// The working directory, if configured.
        directory: Option<PathBuf>,
    },
    /// HTTP.
    Url {
        /// The URL. Its query may hold a secret.
        url: Secret,
        /// The headers of every request.
        headers: Vec<(String, Secret)>,
        /// The dialect.
        dialect: Dialect,
        /// The connect timeout, if configured.
        connect_timeout: Option<Duration>,
        /// Unencrypted credentials to another machine are allowed.
        allow_http: bool,
        /// The certificates.
        tls: Tls,
        /// The source of the credential, if configured.
        auth: Option<Auth>,
    },
    /// The entry already runs `mendline run` with these arguments.
    Wrapped {
        /// The arguments of `mendline run`.
        arguments: Vec<String>,
        /// Environment variables, in addition to those of Mendline.
        environment: Vec<(String, Secret)>,
        /// The working directory, if configured.
        directory: Option<PathBuf>,
    },
}

impl Endpoint {
    /// Returns the default policies for this endpoint.
    pub(crate) fn upstream(&self, name: &str) -> UpstreamConfig {
        match self {
            Endpoint::Command { program, .. } => UpstreamConfig::child(name, program),
            Endpoint::Url { url, dialect, .. } => {
                let origin = Target::parse(url.expose()).map(|target| target.origin().to_string());
                UpstreamConfig::http(name, origin.unwrap_or_default(), *dialect)
            }
            Endpoint::Wrapped { .. } => UpstreamConfig::child(name, "mendline"),
        }
    }
}

/// Returns the endpoint and the number of literal secrets, or reports findings.
pub(super) fn endpoint(entry: &Entry, settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<(Endpoint, usize)> {
    let own = |path: &'static str| settings.own.find(path).map(|found| (path, found));
    let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(own);
    let command = own("command");
    let kind = settings.choice("type");
    // A wrong value is already reported; it still counts as present.
    let is_written = |name: &str| entry.value.get(name).is_some_and(|value| value.kind != ValueKind::Null);
    match (command, url) {
        (Some(_), Some((_, url))) => {
            let what = "the server has both a `command` and a `url`";
            checker.report(Finding::error(url.key_at.clone(), what).help("remove one of the two"));
            None
        }
        (None, None) => {
            if !["command", "url", "serverUrl", "httpUrl"].into_iter().any(is_written) {
                let what = format!("the server `{}` has neither a `command` nor a `url`", entry.key);
                let help = "add `\"command\": \"…\"` or `\"url\": \"https://…\"`";
                checker.report(Finding::error(entry.key_at.clone(), what).help(help));
            }
            None
        }
        (Some(_), None) => {
            if kind.is_some_and(|kind| kind != "stdio") {
                let at = settings.own_span("type").unwrap_or(0..0);
                let what = format!("a server with a `command` cannot have the type `{}`", kind.unwrap_or_default());
                checker.report(Finding::error(at, what).help("write \"stdio\", or remove `type`"));
                return None;
            }
            command_of(settings, checker)
        }
        (None, Some((name, _))) => {
            if kind == Some("stdio") {
                let at = settings.own_span("type").unwrap_or(0..0);
                let help = "write \"http\" or \"sse\", or remove `type`";
                checker.report(
                    Finding::error(at, format!("a server with a `{name}` cannot have the type `stdio`")).help(help),
                );
                return None;
            }
            url_of(name, entry, settings, checker)
        }
    }
}

fn command_of(settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<(Endpoint, usize)> {
    for headers in ["headers", "http_headers", "env_http_headers"] {
        report_misplaced(headers, "HTTP servers only; pass secrets to a command with `env`", settings, checker);
    }
    let is_false = |found: &&CheckedValue| matches!(found.value, TypedValue::Flag(false));
    if let Some(found) = settings.own.find("auth").filter(|found| !is_false(found)) {
        let help = "pass secrets to a command with `env`, and remove `auth`".to_owned();
        checker.report_mistake(found.key_at.clone(), "`auth` applies to servers at a URL only".to_owned(), Some(help));
    }
    for path in ["timeouts.connect", "resume", "allowHttp", "tls"] {
        if let Some(found) = settings.own.find(path) {
            let what = format!("Mendline ignores `{}` here: it applies to HTTP servers only", found.key.name);
            checker.report(Finding::note(found.key_at.clone(), what));
        }
    }
    let program = settings.text("command")?.to_owned();
    if program.trim().is_empty() {
        let at = settings.own_span("command").unwrap_or(0..0);
        checker.report(Finding::error(at, "`command` is empty").help("write the program to start"));
        return None;
    }
    let arguments = settings.words("args").to_vec();
    let environment = environment(settings, checker)?;
    let directory = settings.text("cwd").map(PathBuf::from);
    let secrets = literal_secrets(settings.pairs("env"));
    if let Some(arguments) = unwrapped(&program, &arguments) {
        return Some((Endpoint::Wrapped { arguments, environment, directory }, secrets));
    }
    Some((Endpoint::Command { program, arguments, environment, directory }, secrets))
}

/// Returns the arguments of `mendline run`, if the command is Mendline itself or a package launcher that runs it.
fn unwrapped(program: &str, arguments: &[String]) -> Option<Vec<String>> {
    let words = std::iter::once(program).chain(arguments.iter().map(String::as_str));
    // `env NAME=VALUE … mendline run` runs it, too.
    let is_before = |word: &&str| program == "env" && (*word == "env" || word.contains('='));
    let words: Vec<&str> = words.skip_while(is_before).collect();
    let run = start_of_arguments(&words)?;
    Some(words[run + 1..].iter().map(|word| (*word).to_owned()).collect())
}

/// Returns the variables that a server sets itself, as far as they are valid: `envFile`, overridden by `env`.
pub(super) fn own_variables(entry: &Value, checker: &Checker<'_>) -> Vec<(String, String)> {
    let expanded = |value: &Value| match &value.kind {
        ValueKind::Text(text) => expand(text, |name| checker.environment.variable(name)).ok(),
        _ => None,
    };
    let file = entry.get("envFile").and_then(expanded).and_then(|path| checker.environment.text_beside(&path).ok());
    let mut variables = file.and_then(|text| env_file::parse(&text).ok()).unwrap_or_default();
    for own in entry.get(ENV).and_then(Value::table).unwrap_or_default() {
        if let Some(value) = expanded(&own.value) {
            variables.retain(|(known, _)| *known != own.key);
            variables.push((own.key.clone(), value));
        }
    }
    variables
}

/// Returns the variables of `envFile`, overridden by those of `env`.
fn environment(settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<Vec<(String, Secret)>> {
    let mut variables: Vec<(String, Secret)> = Vec::new();
    if let (Some(path), Some(at)) = (settings.text("envFile"), settings.own_span("envFile")) {
        let read = checker.environment.text_beside(path).map_err(|error| error.to_string());
        match read.and_then(|text| env_file::parse(&text)) {
            Ok(pairs) => variables.extend(pairs.into_iter().map(|(name, value)| (name, Secret::new(value)))),
            Err(why) => {
                let what = format!("cannot read `envFile`: {why}");
                checker
                    .report(Finding::error(at, what).help("correct the file, or remove `envFile`").with_environment());
                return None;
            }
        }
    }
    for Pair { name, name_at, text, .. } in settings.pairs("env") {
        if name.is_empty() || name.contains(['=', '\0']) {
            checker.report(
                Finding::error(name_at.clone(), "this is not a valid name of an environment variable")
                    .help("write a name without `=`"),
            );
            return None;
        }
        variables.retain(|(known, _)| known != name);
        variables.push((name.clone(), Secret::new(text.clone())));
    }
    Some(variables)
}

fn url_of(name: &str, entry: &Entry, settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<(Endpoint, usize)> {
    for path in ["args", "env", "envFile", "cwd"] {
        report_misplaced(path, "commands only; pass secrets to an HTTP server with `headers`", settings, checker);
    }
    let at = settings.own_span(name).unwrap_or(0..0);
    let url = settings.text(name)?;
    let target = match Target::parse(url) {
        Ok(target) => target,
        Err(fault) => {
            let what = match fault {
                // The scheme may come from a variable, so it is not shown.
                UrlFault::Scheme(_) => "the scheme must be http or https".to_owned(),
                fault => fault.to_string(),
            };
            checker.report(Finding::error(at, what).help("for example \"https://mcp.example.com/mcp\""));
            return None;
        }
    };
    let headers = headers(target, settings, checker)?;
    let auth = auth(entry, settings, checker).ok()?;
    check_one_credential(auth.as_ref(), &headers, settings, checker)?;
    // The type "http" of a client file is detected, too; other types name one dialect.
    let dialect = match settings.choice("type") {
        Some("sse") => Dialect::Sse,
        Some("streamable-http" | "streamableHttp") => Dialect::Streamable,
        _ => Dialect::Auto,
    };
    let secret_is_literal = entry.value.get("auth").is_some_and(has_literal_secret);
    let secrets = literal_secrets(settings.pairs("headers"))
        + literal_secrets(settings.pairs("http_headers"))
        + usize::from(secret_is_literal);
    let connect_timeout = settings.duration("timeouts.connect");
    let allow_http = settings.flag("allowHttp").unwrap_or_default();
    let tls = tls(settings, checker)?;
    Some((Endpoint::Url { url: Secret::new(url), headers, dialect, connect_timeout, allow_http, tls, auth }, secrets))
}

/// Returns the certificates, or reports a finding.
fn tls(settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<Tls> {
    let path = |name: &str| settings.text(name).map(str::to_owned);
    let (certificate, key) = (path("tls.clientCertificate"), path("tls.clientKey"));
    if certificate.is_none() && key.is_some() {
        let at = settings.own_span("tls.clientKey").unwrap_or(0..0);
        let what = "`clientKey` needs the certificate that it belongs to";
        checker.report(Finding::error(at, what).help("add `\"clientCertificate\": \"client.pem\"`"));
        return None;
    }
    let key = key.or_else(|| certificate.clone());
    let client = certificate.zip(key).map(|(certificate, key)| CertificatePaths {
        certificate: beside(&certificate, checker),
        key: beside(&key, checker),
    });
    Some(Tls { client, authority: path("tls.authority").map(|path| beside(&path, checker)) })
}

/// Returns the headers of every request, or reports a finding.
fn headers(target: Target, settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<Vec<(String, Secret)>> {
    let mut target = target;
    let mut headers: Vec<(String, Secret)> = Vec::new();
    let bearer = bearer(settings, checker);
    let named = ["headers", "http_headers", "env_http_headers"].into_iter().flat_map(|path| settings.pairs(path));
    for pair in named.chain(&bearer) {
        if headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(&pair.name)) {
            checker.report_mistake(
                pair.name_at.clone(),
                format!("duplicate header `{}`", pair.name),
                Some("remove one of them".to_owned()),
            );
            continue;
        }
        let value = Secret::new(pair.text.clone());
        match target.header(&pair.name, &value) {
            Ok(with_it) => target = with_it,
            Err(fault) => {
                checker.report(Finding::error(pair.name_at.clone(), fault.to_string()));
                return None;
            }
        }
        headers.push((pair.name.clone(), value));
    }
    Some(headers)
}

/// Reports a credential that both `auth` and the headers name.
fn check_one_credential(
    auth: Option<&Auth>,
    headers: &[(String, Secret)],
    settings: Settings<'_>,
    checker: &mut Checker<'_>,
) -> Option<()> {
    let header = match auth {
        None | Some(Auth::Off) => return Some(()),
        Some(Auth::Variable { header, .. } | Auth::File { header, .. } | Auth::Command { header, .. }) => &header.name,
        Some(Auth::OAuth(_) | Auth::ClientCredentials(_)) => "Authorization",
    };
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header)) {
        return Some(());
    }
    let at = settings.own.find("auth").map_or(0..0, |found| found.key_at.clone());
    let what = format!("both `auth` and `headers` set the header {header}");
    checker.report(Finding::error(at, what).help(format!("remove `auth`, or remove {header} from the headers")));
    None
}

fn bearer(settings: Settings<'_>, checker: &mut Checker<'_>) -> Option<Pair> {
    let found = settings.own.find("bearer_token_env_var")?;
    let token = checker.variable(settings.text("bearer_token_env_var")?, &found.at)?;
    let text = format!("Bearer {token}");
    Some(Pair { name: "Authorization".to_owned(), name_at: found.key_at.clone(), text, is_literal: false })
}

/// Reports a key that belongs to the other transport. Tools write empty values, so those are ignored.
fn report_misplaced(path: &str, applies_to: &str, settings: Settings<'_>, checker: &mut Checker<'_>) {
    let Some(found) = settings.own.find(path) else { return };
    let is_empty = settings.pairs(path).is_empty() && settings.words(path).is_empty() && settings.text(path).is_none();
    if !is_empty {
        checker.report_mistake(
            found.key_at.clone(),
            format!("`{path}` applies to {applies_to}"),
            Some(format!("remove `{path}`")),
        );
    }
}

/// Returns the number of literal secrets, by their usual names.
fn literal_secrets(pairs: &[Pair]) -> usize {
    const SECRET_NAMES: [&str; 7] = ["token", "secret", "password", "passwd", "authorization", "credential", "cookie"];
    let is_secret_name = |name: &str| {
        let name = name.to_lowercase();
        SECRET_NAMES.iter().any(|word| name.contains(word)) || name.ends_with("key") || name == "auth"
    };
    pairs.iter().filter(|pair| pair.is_literal && !pair.text.is_empty() && is_secret_name(&pair.name)).count()
}

/// Returns whether the secret of a client is in the file itself.
fn has_literal_secret(auth: &Value) -> bool {
    let is_literal =
        |value: &Value| matches!(&value.kind, ValueKind::Text(text) if !text.is_empty() && !text.contains("${"));
    ["clientSecret", "CLIENT_SECRET"].iter().filter_map(|key| auth.get(key)).any(is_literal)
}
